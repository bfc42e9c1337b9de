import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { z } from "zod";
import { createConsoleClient } from "../../services/cli/console/client.ts";
import { get, post } from "../../services/cli/http.ts";
import { watch } from "../../services/cli/pay/watch.ts";
import { isThere } from "../../services/dev/own-runner.ts";
import { createGuardedAgent } from "../../services/producer/callbacks/guarded-agent.ts";
import { Hold } from "../../services/producer/consumer/hold.ts";
import { exchange } from "../../services/producer/exchange.ts";
import { createHttpInject } from "../../services/producer/http-runner.ts";
import { createGateways } from "../../services/runner/gateways.ts";
import { createFacilitatorClient } from "../../services/x402-gateway/facilitator/client.ts";
import { parseJobCall } from "../../shared/call/job-call.ts";
import { createRpc } from "../../shared/chain/rpc.ts";
import { createAddressList } from "../../shared/http/ip/address-list.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { useEnds } from "../fixtures/ends.ts";
import { aCall } from "../fixtures/producer.ts";

const ends = useEnds();

/** Starts a server that sends 100 (Continue) unasked before each response. Resolves with its URL. */
async function startServer(body: string, type = "application/json"): Promise<string> {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`;
  const server = createServer((socket: Socket) => {
    ends.defer(() => void socket.destroy());
    socket.on("data", () => socket.write(`HTTP/1.1 100 Continue\r\n\r\n${head}${body}`));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.defer(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const soon = () => systemClock() + 5000;

type Case = { body?: string; type?: string; ask: (url: string) => Promise<unknown>; gets: unknown };

const CLIENTS: Readonly<Record<string, Case>> = {
  "an injection into a runner": {
    body: "ran",
    ask: async (url) => {
      const { inject, close } = createHttpInject({
        ...{ url, secret: undefined, timeoutMs: 5000, timeoutMsOfJob: new Map() },
        ...{ connections: 1, resultBytesMax: 256 * 1024, clock: systemClock },
      });
      ends.defer(close);
      return inject(parseJobCall(aCall({ keep_result: true })), new Hold());
    },
    gets: { status: 200, contentType: "application/json", body: Buffer.from("ran") },
  },
  "a callback": {
    body: "told",
    ask: async (url) => {
      const agent = createGuardedAgent({ allowed: createAddressList(["127.0.0.1"]), connections: 1 });
      ends.defer(() => agent.destroy());
      const request = { origin: url, method: "POST", path: "/", body: "{}" } as const;
      const { status, body } = await exchange(agent, request, { timeoutMs: 5000, keepBytesMax: 100 });
      return `${status} ${body}`;
    },
    gets: "200 told",
  },
  "a request to a facilitator": {
    body: '{"kinds":[]}',
    ask: async (url) => {
      const credentials = { fixed: {}, headersFor: undefined };
      const client = createFacilitatorClient({ url, credentials, clock: systemClock });
      ends.defer(client.close);
      return client.exchange("supported", undefined, 5000);
    },
    gets: { kind: "json", status: 200, value: { kinds: [] } },
  },
  "a request to a node": {
    body: '{"jsonrpc":"2.0","id":1,"result":"0x1"}',
    ask: (url) =>
      createRpc({ url: new Secret(url), timeoutMs: 5000 })({
        method: "eth_chainId",
        params: [],
        answer: z.string(),
      }),
    gets: "0x1",
  },
  "the delivery of a result": {
    ask: async (url) => {
      const gateways = createGateways({ urls: [url], secret: new Secret("s"), clock: systemClock });
      const result = { status: 200, contentType: "text/plain", body: Buffer.from("result") };
      return (await gateways.deliver("c_1", result)).outcome;
    },
    gets: "taken",
  },
  "a POST of a CLI command": {
    body: '{"a":1}',
    ask: async (url) =>
      (await post({ url: new URL(url), headers: {}, body: Buffer.from("hi") }, soon())).json,
    gets: { a: 1 },
  },
  "a GET of a CLI command": {
    body: '{"a":1}',
    ask: async (url) => (await get(new URL(url), soon())).json,
    gets: { a: 1 },
  },
  "a request to the console": {
    body: '{"matched":1,"total":1}',
    ask: (url) => createConsoleClient({ url: new URL(url), token: undefined }).countFailed(),
    gets: { matched: 1, total: 1 },
  },
  "a stream of a call's events": {
    body: 'event: end\ndata: {"state":"injected"}\n\n',
    type: "text/event-stream",
    ask: (url) =>
      watch(new URL(`${url}/x402/calls/c_1`), {
        token: undefined,
        deadline: soon(),
        onState: () => {},
        onProgress: () => {},
      }),
    gets: expect.objectContaining({ kind: "ended", state: "injected" }),
  },
  "the check of dev whether a runner is running": { ask: isThere, gets: true },
};

test.each(Object.entries(CLIENTS))(
  "%s gets its response from a server that sends 100 Continue unasked",
  async (_, { body = "", type, ask, gets }) => {
    expect(await ask(await startServer(body, type))).toEqual(gets);
  },
);
