import { createHmac } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import Fastify from "fastify";
import { expect, test } from "vitest";
import { createProducer } from "../../services/producer/producer.ts";
import { createRouter, createRunner } from "../../services/runner/runner.ts";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { createX402Gateway } from "../../services/x402-gateway/gateway.ts";
import { devToken } from "../../shared/dev/config.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { ServedPart } from "../../shared/part/part.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { useEnds } from "../fixtures/ends.ts";
import { useRedis } from "../fixtures/redis.ts";
import { requiredIn, signOffer } from "../fixtures/x402.ts";
import { newPayer } from "../support/devnet.ts";
import { send } from "../support/http.ts";
import { sample } from "../support/long-run.ts";

const redis = useRedis();
const devnet = useDevnet();
const ends = useEnds();

type Handler = ServedPart["handler"];
/** A listening server that gets its handler later, because a part may need the server's address. */
type Host = { address: string; mount(handler: Handler): void };

const opened = (server: Server): string => `127.0.0.1:${(server.address() as AddressInfo).port}`;

/** Servers with a handler under /postern, mounted as docs/library.md shows. */
const hosts = {
  express: async (before?: express.RequestHandler): Promise<Host> => {
    const app = express();
    if (before) app.use(before);
    const server = await new Promise<Server>((resolve) => {
      const listening = app.listen(0, "127.0.0.1", () => resolve(listening));
    });
    ends.defer(() => server.close());
    return { address: opened(server), mount: (handler) => void app.use("/postern", handler) };
  },
  fastify: async (): Promise<Host> => {
    let mounted: Handler | undefined;
    const app = Fastify();
    app.register((scope, _options, registered) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser("*", (_request, _body, done) => done(null));
      scope.all("/postern/*", (request, reply) => {
        reply.hijack();
        mounted?.(request.raw, reply.raw);
      });
      registered();
    });
    await app.listen({ host: "127.0.0.1", port: 0 });
    ends.defer(() => app.close());
    return {
      address: opened(app.server),
      mount(handler) {
        mounted = handler;
      },
    };
  },
  "node:http": async (): Promise<Host> => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ends.defer(() => server.close());
    return { address: opened(server), mount: (handler) => void server.on("request", handler) };
  },
};

const kinds = ["express", "fastify", "node:http"] as const;
const mountPathIn = (kind: (typeof kinds)[number]) => (kind === "express" ? {} : { mountPath: "/postern" });

async function ready<Made extends ServedPart>(part: Made): Promise<Made> {
  ends.defer(() => part.close(100));
  await part.ready();
  return part;
}

const postern = () => ({ redis: { url: redis.url } });
const open = { endpoints: [{ path: "/a", job_id: 1, auth: "none" as const }] };
const payments = (public_url: string) => ({
  postern: postern(),
  x402: {
    public_url,
    facilitator_url: devnet.facilitatorUrl,
    quote_secret: "a quote secret for these tests",
    accepted_tokens: [{ ...devToken(devnet), confirmations: 0 }],
  },
  job_pricing: { 1: { 7: "1000000000000000" } },
});

test.each(sample(kinds))(
  "a payment gateway under a path of %s prints URLs that reach it, and sells the job at its own resource",
  async (kind) => {
    const host = await hosts[kind]();
    const publicUrl = `http://${host.address}/postern`;
    const gateway = await ready(createX402Gateway({ ...payments(publicUrl), ...mountPathIn(kind) }));
    host.mount(gateway.handler);
    const challenge = await eventually("it sells", async () => {
      const answer = await send(host.address, { path: "/postern/x402/jobs/1/7", body: "hello" });
      return answer.status === 402 ? answer : undefined;
    });
    const url = requiredIn(challenge).resource?.url;
    expect(url).toBe(`${publicUrl}/x402/jobs/1/7`);
    const payment = await signOffer(challenge, { payer: await newPayer(devnet) });
    const paid = await fetch(String(url), { method: "POST", headers: payment, body: "hello" });
    expect(paid.status).toBe(202);
    const status = await fetch(String(paid.headers.get("location")));
    expect(await status.json()).toMatchObject({ state: "queued" });
  },
);

test.each(kinds)(
  "a webhook with a signed URL is accepted under a path of %s, and with another URL it is refused",
  async (kind) => {
    const host = await hosts[kind]();
    const publicUrl = `https://hooks.example.com/postern/hooks/a?tenant=7`;
    const gateway = await ready(
      createWebhooksGateway({
        postern: postern(),
        webhooks: {
          endpoints: [
            {
              ...{ path: "/hooks/a", job_id: 1, auth: "signature", secret: "a secret of the sender" },
              public_url: publicUrl,
              signature: {
                header: "X-Signature",
                algorithm: "hmac-sha256",
                encoding: "hex",
                signed: "{url}\n{body}",
              },
            },
          ],
        },
        ...mountPathIn(kind),
      }),
    );
    host.mount(gateway.handler);
    const signed = (url: string) => {
      const mac = createHmac("sha256", "a secret of the sender").update(`${url}\nhello`).digest("hex");
      return { path: "/postern/hooks/a?tenant=7", headers: { "X-Signature": mac }, body: "hello" };
    };
    expect((await send(host.address, signed(publicUrl))).status).toBe(202);
    expect((await send(host.address, signed(publicUrl.replace("/postern", "")))).status).toBe(401);
  },
);

test.each(sample(kinds))(
  "a runner under a path of %s accepts requests that a producer signed for it",
  async (kind) => {
    const host = await hosts[kind]();
    const bodies: string[] = [];
    const jobs = createRouter().job(1, {
      name: "note",
      handler: ({ body }) => ({ json: bodies.push(String(body)) }),
    });
    const secret = "a secret of producer and runner";
    const runner = await ready(
      createRunner({ jobs, postern: { ...postern(), runner: { secret } }, ...mountPathIn(kind) }),
    );
    host.mount(runner.handler);
    const gateway = await ready(createWebhooksGateway({ postern: postern(), webhooks: open }));
    const { address } = await gateway.listen("127.0.0.1:0");
    const body = `by ${kind}`;
    await send(address, { path: "/a", body });
    const url = `http://${host.address}/postern`;
    const producer = createProducer({
      postern: { ...postern(), runner: { url, secret } },
      origins: ["webhook"],
    });
    ends.defer(() => producer.close(1000));
    await eventually("the call ran", () => bodies.includes(body));
  },
);

test.each(sample(kinds))(
  "a request with more headers than the server of %s keeps is refused, and none of its headers is silently dropped",
  async (kind) => {
    const host = await hosts[kind]();
    const gateway = await ready(
      createWebhooksGateway({ postern: postern(), webhooks: open, ...mountPathIn(kind) }),
    );
    host.mount(gateway.handler);
    const withFillers = (count: number) =>
      send(host.address, {
        path: "/postern/a",
        headers: [...Array.from({ length: count }, () => ["a", ""]).flat(), "Content-Length", "1"],
        body: "x",
      });
    expect((await withFillers(900)).status).toBe(202);
    const refused = await withFillers(2100);
    expect(refused.status).toBe(431);
    // Later releases of Node refuse such a request themselves. Node 20 drops headers, and the gateway must notice.
    if (process.version.startsWith("v20.")) expect(refused.json()["code"]).toBe("request.headers_too_large");
  },
);

test("both gateways and the runner answer 500 with the remedy if express.json() has already read the body", async () => {
  const { address, mount } = await hosts.express(express.json());
  const jobs = createRouter().job(1, { name: "none", handler: () => ({}) });
  const parts = await Promise.all([
    ready(createWebhooksGateway({ postern: postern(), webhooks: open })),
    ready(createX402Gateway(payments("http://127.0.0.1/postern"))),
    ready(createRunner({ jobs, postern: postern() })),
  ]);
  const byPath = new Map(["/a", "/x402", "/jobs"].map((path, i) => [path, parts[i]]));
  mount((req, res) => {
    const path = [...byPath.keys()].find((start) => req.url?.startsWith(start)) ?? "/a";
    byPath.get(path)?.handler(req, res);
  });
  const headers = { "Content-Type": "application/json", "Idempotency-Key": "k1" };
  const challenge = await eventually("it sells", async () => {
    const answer = await send(address, { path: "/postern/x402/jobs/1/7", body: "{}", headers });
    return answer.status === 402 ? answer : undefined;
  });
  const payment = await signOffer(challenge, { payer: await newPayer(devnet) });
  for (const [path, more] of [["/a"], ["/x402/jobs/1/7", payment], ["/jobs/1"]] as const) {
    const sent = { path: `/postern${path}`, body: "{}", headers: { ...headers, ...more } };
    expect((await send(address, sent)).json(), path).toMatchObject({
      ...{ status: 500, code: "request.body_consumed" },
      detail: expect.stringContaining("express.json()"),
    });
  }
});
