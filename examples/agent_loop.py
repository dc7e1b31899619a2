"""An agent with one tool, as a plain library. Runs without a key: its model is scripted."""

import anyio

from pi_rpc.agent import Agent, AgentTool, InitialState, ToolResult
from pi_rpc.llm.scripted import scripted_model, scripted_stream_fn, text, tool_call


def add(tool_call_id, params, signal, on_update):
    return ToolResult.of_text(str(params["a"] + params["b"]))


schema = {"type": "object", "required": ["a", "b"]}
tool = AgentTool(name="add", label="Add", description="Adds.", parameters=schema, execute=add)
model = scripted_stream_fn([[tool_call("add", {"a": 2, "b": 3})], [text("It is 5.")]])
agent = Agent(InitialState(model=scripted_model(), tools=[tool]), stream_fn=model)
agent.subscribe(lambda event: print(type(event).__name__))
anyio.run(agent.prompt, "What is 2 + 3?")
