"""Language models that prompts are put to: a simulated one, in process and as a server."""
