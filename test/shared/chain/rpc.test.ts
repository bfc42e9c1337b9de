import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { createEthCall } from "../../../shared/chain/rpc.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { ASSET, useTokenChain } from "../../fixtures/token-chain.ts";
import { recordingLog } from "../../support/recording-log.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);
const ends = useEnds();

const TIMEOUT_MS = 100;
const SECRETS = /api-key-12345678|tok-87654321|pass-w0rd-123|127\.0\.0\.1/;

/** An object of which JavaScript makes no string. */
const NO_TEXT = { toString: 1 };

const ILL_NODES: [string, Parameters<typeof nodeThat>[0]][] = [
  ["resets", (_, res) => void res.socket?.resetAndDestroy() === undefined],
  ["is silent", () => true],
  ["never ends its answer", (_, res) => res.writeHead(200).write('{"jsonrpc"')],
  ["answers 401", (_, res) => Boolean(res.writeHead(401).end("api-key-12345678 is not valid"))],
  ["answers 429", (_, res) => Boolean(res.writeHead(429).end("{}"))],
  ["answers a page", (_, res) => Boolean(res.end("<h1>no</h1>"))],
  ["answers null", (_, res) => Boolean(res.end("null"))],
  ["answers an empty object", (_, res) => Boolean(res.end("{}"))],
  [
    "answers with an error that is no text",
    ({ id }, res) => Boolean(res.end(JSON.stringify({ id, error: { code: NO_TEXT, message: NO_TEXT } }))),
  ],
  [
    "answers with an endless word",
    ({ id }, res) =>
      Boolean(res.end(JSON.stringify({ id, error: { code: 1, message: "a".repeat(500_000) } }))),
  ],
  ["redirects", (_, res) => Boolean(res.writeHead(307, { location: fixture.rpcUrl }).end())],
  [
    "repeats its URL in an error",
    ({ id }, res) => {
      const message = `http://127.0.0.1/v2/api-key-12345678: token tok-87654321 of api-key-12345678 at ${res.req.headers.host} is used up`;
      return Boolean(res.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32000, message } })));
    },
  ],
];

test.each(ILL_NODES)(
  "a read fails if the node %s, and the error does not show the node's URL",
  async (_how, answer) => {
    const { url } = await nodeThat(answer);
    const log = recordingLog();
    const ill = chainOf({ rpcUrl: url, timeoutMs: TIMEOUT_MS }, log);
    const its = await fixture.authorization();
    ill.start();

    const calls = [
      () => ill.evidenceOf(its, { since: 0n }),
      () => ill.freshHead(),
      () => createEthCall({ rpcUrl: new Secret(url), timeoutMs: TIMEOUT_MS })({ to: ASSET, data: "0x" }),
      () => ill.proofOf(`0x${"12".repeat(32)}`, its),
    ];
    const startedAt = performance.now();
    for (const call of calls) {
      const error = await call().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toMatchObject({ code: "payment.unavailable" });
      expect(inspect(error, { depth: 9 }).replaceAll(/^ +at .*$/gm, "")).not.toMatch(SECRETS);
    }
    expect(performance.now() - startedAt).toBeLessThan(3000);
    await eventually("the loss is logged", () => log.events.length > 0);
    expect(log.events.map(({ event }) => event)).toEqual(["chain.down"]);
    expect(log.text()).not.toMatch(SECRETS);
    expect(ill.head()).toBeUndefined();
  },
);

test("user and password of a node's URL are sent as basic authentication (RFC 7617)", async () => {
  let sent: string | undefined;
  const node = createServer((req, res) => {
    sent = req.headers.authorization;
    res.end('{"jsonrpc":"2.0","id":0,"result":"0x12"}');
  });
  await new Promise<void>((resolve) => node.listen(0, "127.0.0.1", resolve));
  ends.defer(() => node.close());
  const { port } = node.address() as AddressInfo;
  const ethCall = createEthCall({
    rpcUrl: new Secret(`http://me:a%3Ab@127.0.0.1:${port}/`),
    timeoutMs: 5000,
  });
  expect(await ethCall({ to: ASSET, data: "0x" })).toBe("0x12");
  expect(sent).toBe(`Basic ${Buffer.from("me:a:b").toString("base64")}`);
});
