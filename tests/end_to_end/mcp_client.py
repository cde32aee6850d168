"""A host of the tools that is written by others: lists them, receives a handoff, applies it and answers it.

Called with the program, in the repository where it is to work; its environment is the server's. Prints what it was told as one
JSON object.
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client


async def main() -> None:
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env=dict(os.environ), cwd=os.getcwd())
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]

        async def call(name: str, **arguments: object) -> dict:
            result = await session.call_tool(name, arguments)
            told = json.loads(result.content[0].text)
            assert not getattr(result, "is_error", getattr(result, "isError", None)), told
            return told

        news = await call("recv", room="build")
        handoff = news["handoffs"][0]
        applied = await call("apply", room="build", bundle=handoff["bundle"]["id"])
        done = await call("task", room="build", handoff=str(handoff["seq"]), status="done", note="looked at")
        answer = await call("handoff", room="build", **{"for": "alice"}, next="merge it", bundle=applied["oid"])
    print(json.dumps({"tools": tools, "applied": applied, "done": done, "answer": answer}))


asyncio.run(main())
