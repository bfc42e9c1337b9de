import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { z } from "zod";
import { createNode, NodeFaults } from "../../services/dev/chain/node.ts";

export type Rpc = { id: number; method: string; params: { fromBlock: string; toBlock: string }[] };

export type NodeBefore = {
  /** URL with a secret in each place where a provider's URL may have one. */
  url: string;
  /** `host:port`, for another form of URL. */
  address: string;
  /** Requests that the node has received, alone or in a batch that it answered as usual. */
  asked: Rpc[];
  batches: Rpc[][];
  close(): Promise<void>;
};

/**
 * Starts a node in front of the one at `rpcUrl`. It answers a request itself if `answer` does so. It answers each request of
 * a batch in the same way, unless `answerBatch` answers the batch.
 */
export async function startNodeBefore(
  rpcUrl: string,
  answer: (rpc: Rpc, res: ServerResponse) => boolean,
  answerBatch: (batch: readonly Rpc[], res: ServerResponse) => boolean = () => false,
): Promise<NodeBefore> {
  const asked: Rpc[] = [];
  const batches: Rpc[][] = [];
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const rpc = JSON.parse(Buffer.concat(chunks).toString()) as Rpc | Rpc[];
    if (Array.isArray(rpc)) {
      batches.push(rpc);
      if (!answerBatch(rpc, res)) await answerEach(`http://${address}`, rpc, res);
      return;
    }
    asked.push(rpc);
    if (!answer(rpc, res)) await forward(rpcUrl, rpc, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    asked,
    batches,
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
  /** Number of waiting requests. */
  held(): number;
  /** Answers the waiting requests, and all later ones at once. */
  release(): void;
};

/** Starts a node in front of the one at `rpcUrl`. It holds the requests that `isHeld` selects. */
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
    release() {
      isOpen = true;
      for (const answer of held.splice(0)) void answer();
    },
  };
}

/** Returns the behaviour of a node with these faults in front of another (startNodeBefore). */
export function faultyNode(rpcUrl: string, faults: z.input<typeof NodeFaults>) {
  const given = NodeFaults.parse(faults);
  const node = createNode(rpcUrl, () => given);
  return (rpc: Rpc, res: ServerResponse): true => {
    void node(rpc).then(({ status, body }) => res.writeHead(status).end(JSON.stringify(body)));
    return true;
  };
}

/**
 * Sends each request of a batch to the node at this URL, and answers with a batch. If one request fails, the whole
 * batch fails.
 */
async function answerEach(url: string, batch: readonly Rpc[], res: ServerResponse): Promise<void> {
  const answers = await Promise.all(batch.map((rpc) => ask(url, rpc))).catch(() => undefined);
  const failed = answers?.find(({ status }) => status !== 200);
  if (answers === undefined) res.destroy();
  else if (failed !== undefined) res.writeHead(failed.status).end(failed.text);
  else res.end(`[${answers.map(({ text }) => text).join(",")}]`);
}

async function ask(url: string, rpc: object): Promise<{ status: number; text: string }> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", body: JSON.stringify(rpc), headers });
  return { status: response.status, text: await response.text() };
}

/** Answers in the same way as the node at `rpcUrl`. */
export async function forward(rpcUrl: string, rpc: object, res: ServerResponse): Promise<void> {
  const { text } = await ask(rpcUrl, rpc);
  res.writeHead(200, { "content-type": "application/json" }).end(text);
}

export function answerWith(result: unknown, { id }: Rpc, res: ServerResponse): true {
  res.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  return true;
}
