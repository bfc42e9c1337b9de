import { text } from "node:stream/consumers";
import { listen } from "../../../shared/http/listen.ts";

/** A node that is another one, and counts what contracts are asked of it. While it is away, it breaks every connection. */
export async function countingNode(rpcUrl: string) {
  let calls = 0;
  let isAway = false;
  const server = await listen(async (req, res) => {
    if (isAway) return void req.socket.destroy();
    const body = await text(req);
    if (body.includes('"eth_call"')) calls += 1;
    const answer = await fetch(rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    res.writeHead(answer.status, { "content-type": "application/json" });
    res.end(await answer.text());
  }, "127.0.0.1:0");
  return {
    url: server.url,
    calls: () => calls,
    close: () => server.close(0),
    set isAway(away: boolean) {
      isAway = away;
    },
  };
}
