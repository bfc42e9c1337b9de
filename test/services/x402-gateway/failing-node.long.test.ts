import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { useEnds } from "../../fixtures/ends.ts";
import { PRICE, useX402 } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { type Rpc, startNodeBefore } from "../../support/node-before.ts";

const fixture = useX402();
const ends = useEnds();

const FAILURES: ((rpc: Rpc, res: ServerResponse) => unknown)[] = [
  (_, res) => res.writeHead(500).end("no"),
  ({ id }, res) =>
    res.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32_603, message: "Internal error" } })),
  (_, res) => res.socket?.resetAndDestroy(),
  (_, res) => res.writeHead(200).end("<h1>busy</h1>"),
];

test("every payment is accepted although the token's node fails at two of five requests", async () => {
  let questions = 0;
  const node = await startNodeBefore(fixture.devnet.rpcUrl, (rpc, res) => {
    questions += 1;
    if (questions % 5 > 1) return false;
    FAILURES[questions % FAILURES.length]?.(rpc, res);
    return true;
  });
  ends.defer(node.close);
  const x402 = await fixture.gateway({ token: { rpc_url: node.url } });
  const payers = await Promise.all(Array.from({ length: 20 }, () => newPayer(fixture.devnet)));
  for (const payer of payers) {
    const answer = await x402.post(await x402.pay({ payer }));
    expect([answer.status, answer.text]).toEqual([202, expect.anything()]);
    expect(await fixture.charged(payer)).toEqual([PRICE]);
  }
});
