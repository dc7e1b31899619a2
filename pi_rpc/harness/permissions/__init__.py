"""What may be read, written and run without asking, and how a person is asked.

Owns the decision and what is remembered of the answers. Does not own the shapes of question and
answer (``pi_rpc.agent.permission``).
"""
