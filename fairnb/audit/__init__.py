"""What printed numbers can and cannot say: from print alone, and from the released replies."""
