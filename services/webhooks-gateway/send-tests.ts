import { createServer } from "node:http";
import { type Duplex, duplexPair } from "node:stream";
import {
  notSent,
  openEndpointTests,
  type TestOrder,
  type TestOutcome,
} from "../../shared/ingress/endpoint-tests.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { makeDelivery } from "../../shared/webhook-auth/sample/delivery.ts";
import { describeAnswer, exchange } from "../../shared/webhook-auth/sample/exchange.ts";
import type { Endpoint, Receive } from "./receive.ts";

type Deps = {
  endpoints: ReadonlyMap<string, Endpoint>;
  receive: Receive;
  redisTime: Clock;
  log: Logger;
};

/**
 * Creates the function that carries out the endpoint tests that operators order (shared/ingress/endpoint-tests.ts). In
 * a test, the gateway sends a sample delivery to itself over a connection inside this process. The delivery is signed
 * with the endpoint's secret. Each call of the returned function starts a few of the waiting tests, and does not wait
 * for their outcomes.
 */
export function createSendTests(partition: Partition, { endpoints, receive, redisTime, log }: Deps) {
  const tests = openEndpointTests(partition);

  /**
   * Opens a connection inside this process to a server that serves only this endpoint. The endpoint's `allow_ips` does
   * not apply, because the test comes from no network address.
   */
  function connectTo(endpoint: Endpoint): Duplex {
    const [ours, theirs] = duplexPair();
    const server = createServer((req, res) => void receive(req, res, { ...endpoint, allowed: undefined }));
    server.emit("connection", Object.assign(theirs, { remoteAddress: "127.0.0.1" }));
    return ours;
  }

  async function send({ id, path }: TestOrder): Promise<TestOutcome> {
    const endpoint = endpoints.get(path);
    if (endpoint === undefined) throw new Error("the gateway that took the test does not have this endpoint");
    const url = new URL(path, "http://webhooks.invalid");
    const { config } = endpoint;
    const sender = { url, endpoint: config, secrets: config.secret, signingKey: throwNoKey };
    // The order's id is the delivery id, so that a test that is sent twice makes only one call.
    const draft = makeDelivery(sender, id, new Date(redisTime()));
    const answer = await exchange(url, draft, () => connectTo(endpoint));
    return { status: answer.status, ...describeAnswer(answer) };
  }

  async function run(order: TestOrder): Promise<void> {
    await tests.report(order, await send(order).catch((error: unknown) => notSent(messageOf(error))));
  }

  return async (): Promise<void> => {
    for (const order of await tests.take(redisTime())) {
      run(order).catch((error: unknown) =>
        log.warn("endpoint.test_unreported", { path: order.path, reason: messageOf(error) }),
      );
    }
  };
}

function throwNoKey(): never {
  throw new Error("this sender signs with a private key, which only the sender has");
}
