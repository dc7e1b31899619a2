"""One prompt: the reply as it streams, tool calls as they run, permission asked on the terminal.

Usage: python python_client.py "What is in README.md?"
"""

import sys

import anyio

from pi_rpc.agent.events import AgentSettled, ToolExecutionStart
from pi_rpc.client import DaemonEnded, Missed, PiRpc, RpcError
from pi_rpc.llm.events import TextDelta, TextEnd
from pi_rpc.protocol.events import MessageUpdate
from pi_rpc.protocol.permissions import PermissionRequestParams, PermissionRequestResult


def typed() -> str:
    try:
        return input("> ")
    except EOFError:
        return ""


async def ask_person(question: PermissionRequestParams) -> PermissionRequestResult:
    print(question.title)
    for number, option in enumerate(question.options, 1):
        print(f"  {number}. {option.name}")
    # In a thread that may be left alone, should the question be moot before it is answered.
    answer = await anyio.to_thread.run_sync(typed, abandon_on_cancel=True)
    if answer.isdecimal() and 1 <= int(answer) <= len(question.options):
        return PermissionRequestResult(option_id=question.options[int(answer) - 1].id)
    return PermissionRequestResult(cancelled=True)


async def main(prompt: str) -> str:
    async with PiRpc.spawn(handlers={"permission/request": ask_person}) as client:
        session = await client.default_session()
        with session.events() as events:
            await session.prompt(prompt, wait="accepted")
            async for event in events:
                match event:
                    case MessageUpdate(assistant_message_event=TextDelta(delta=text)):
                        print(text, end="", flush=True)
                    case MessageUpdate(assistant_message_event=TextEnd()):
                        print()
                    case ToolExecutionStart(title=title):
                        print(f"[{title}]")
                    case Missed():
                        print("[…]")
                    case AgentSettled(stop_reason="stop"):
                        return ""
                    case AgentSettled(error_message=why, stop_reason=reason):
                        return why or reason
    return "the session was closed"


if __name__ == "__main__":
    try:
        sys.exit(anyio.run(main, " ".join(sys.argv[1:])) or 0)
    except (DaemonEnded, RpcError) as error:
        sys.exit(str(error))
