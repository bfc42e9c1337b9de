import { createServer, type RequestListener } from "node:http";
import { type Duplex, duplexPair } from "node:stream";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { openEndpointTests, type TestOrder, type TestOutcome } from "../../shared/ingress/endpoint-tests.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { makeDelivery } from "../../shared/webhook-auth/sample/delivery.ts";
import { describeAnswer, exchange } from "../../shared/webhook-auth/sample/exchange.ts";
import type { Scheme } from "../../shared/webhook-auth/signature-scheme.ts";

type Deps = {
  endpoints: ReadonlyMap<string, { config: EndpointToml }>;
  /** Answers a webhook from any address. */
  handler: RequestListener;
  redisTime: Clock;
  log: Logger;
};

/**
 * Sends the tests that operators order: a sample delivery, signed with the endpoint's secret, over a connection inside this process. The
 * returned function takes the orders that wait, and does not wait for their outcomes.
 */
export function createSendTests(partition: Partition, { endpoints, handler, redisTime, log }: Deps) {
  const tests = openEndpointTests(partition);
  const server = createServer(handler);

  function connect(): Duplex {
    const [ours, theirs] = duplexPair();
    server.emit("connection", Object.assign(theirs, { remoteAddress: "127.0.0.1" }));
    return ours;
  }

  async function send({ id, path }: TestOrder): Promise<TestOutcome> {
    const endpoint = endpoints.get(path)?.config;
    if (endpoint === undefined) throw new Error("the gateway that took the test does not have this endpoint");
    const url = new URL(path, "http://webhooks.invalid");
    const sender = { url, endpoint, secrets: endpoint.secret, privateKey };
    // The order's id is the delivery's, so that a test that is sent twice is one call.
    const answer = await exchange(url, makeDelivery(sender, id, new Date(redisTime())), connect);
    return { status: answer.status, ...describeAnswer(answer) };
  }

  async function run(order: TestOrder): Promise<void> {
    const outcome = await send(order).catch(
      (error: unknown): TestOutcome => ({
        ...{ status: null, accepted: false, call_id: null },
        detail: messageOf(error),
      }),
    );
    await tests.report(order, outcome);
  }

  return async (): Promise<void> => {
    for (const order of await tests.take(redisTime())) {
      run(order).catch((error: unknown) =>
        log.warn("endpoint.test_unreported", { path: order.path, reason: messageOf(error) }),
      );
    }
  };
}

function privateKey({ algorithm }: Scheme): never {
  throw new Error(`this sender signs with a private key (${algorithm}), which only the sender has`);
}
