import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { z } from "zod";
import { createNode, NodeIlls } from "../../services/dev/chain/node.ts";

export type Rpc = { id: number; method: string; params: { fromBlock: string; toBlock: string }[] };

export type NodeBefore = {
  /** With secrets in it wherever a provider's URL has some. */
  url: string;
  /** `host:port`, for a URL of another form. */
  address: string;
  /** What it was asked. */
  asked: Rpc[];
  close(): Promise<void>;
};

/** A node in front of the one at `rpcUrl`, which answers some requests by itself: those of which `answer` says so. */
export async function startNodeBefore(
  rpcUrl: string,
  answer: (rpc: Rpc, res: ServerResponse) => boolean,
): Promise<NodeBefore> {
  const asked: Rpc[] = [];
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const rpc = JSON.parse(Buffer.concat(chunks).toString()) as Rpc;
    asked.push(rpc);
    if (!answer(rpc, res)) await forward(rpcUrl, rpc, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    asked,
    address,
    url: `http://user:pass-w0rd-123@${address}/v2/api-key-12345678?token=tok-87654321`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export type HoldingNode = NodeBefore & {
  /** How many requests wait. */
  held(): number;
  /** Answers what waits, and from now on everything at once. */
  goOn(): void;
};

/** A node in front of the one at `rpcUrl`, which keeps some requests waiting: those of which `isHeld` says so. */
export async function startHoldingNode(rpcUrl: string, isHeld: (rpc: Rpc) => boolean): Promise<HoldingNode> {
  const held: (() => Promise<void>)[] = [];
  let isOpen = false;
  const node = await startNodeBefore(rpcUrl, (rpc, res) => {
    if (isOpen || !isHeld(rpc)) return false;
    held.push(() => forward(rpcUrl, rpc, res));
    return true;
  });
  return {
    ...node,
    held: () => held.length,
    goOn() {
      isOpen = true;
      for (const answer of held.splice(0)) void answer();
    },
  };
}

/** What a node in front of another does with a request, if it has these ills (startNodeBefore). */
export function illNode(rpcUrl: string, ills: z.input<typeof NodeIlls>) {
  const given = NodeIlls.parse(ills);
  const node = createNode(rpcUrl, () => given);
  return (rpc: Rpc, res: ServerResponse): true => {
    void node(rpc).then(({ status, body }) => res.writeHead(status).end(JSON.stringify(body)));
    return true;
  };
}

/** Answers as the node at `rpcUrl` does. */
export async function forward(rpcUrl: string, rpc: object, res: ServerResponse): Promise<void> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(rpcUrl, { method: "POST", body: JSON.stringify(rpc), headers });
  res.writeHead(200, headers).end(await response.text());
}

export function answerWith(result: unknown, { id }: Rpc, res: ServerResponse): true {
  res.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  return true;
}
