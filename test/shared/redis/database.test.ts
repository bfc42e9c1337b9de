import { Redis } from "ioredis";
import { afterEach, expect, test } from "vitest";
import { createWebhooksGateway } from "../../../services/webhooks-gateway/gateway.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectBeside, connectForRequests, connectForWork } from "../../../shared/redis/connect.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

/** This Redis has the databases 0 to 3, so that database 7 does not exist. */
const redis = useOwnRedis(["--databases", "4"]);
const webhooks = useWebhooks({ redis });
const ends = useEnds();

const ENDPOINTS = [{ path: "/a", job_id: 1, auth: "none" }] as const;
const post = (address: string) => send(address, { path: "/a", body: "x" });
const emptyHere = async () => expect(await redis.client.dbsize()).toBe(0);

afterEach(async () => {
  await redis.client.call("ACL", "DELUSER", "app");
});

test.each([
  ["that there is not", "redis://127.0.0.1:PORT/7", /DB index is out of range/],
  ["into which its user may not go", "redis://app:any@127.0.0.1:PORT/1", /NOPERM.*select/i],
])(
  "a gateway whose URL names a database %s refuses to start, and writes nothing into database 0",
  async (_, url, reason) => {
    await redis.client.call("ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-select");
    const redisUrl = url.replace("PORT", String(redis.server.port));
    const { gateway, address, log } = await webhooks.start({ endpoints: ENDPOINTS, redisUrl, early: true });
    await expect(gateway.firstCheck).rejects.toMatchObject({ code: "start.redis_denied" });
    await expect(gateway.firstCheck).rejects.toThrow(reason);
    expect((await post(address)).json()).toMatchObject({ status: 503, code: "queue.denied" });
    expect((await send(address, { method: "GET", path: "/readyz" })).text).toMatch(
      /queue\.denied.*To fix this, /,
    );
    expect(log.events.filter(({ event }) => event === "redis.unusable")).toHaveLength(1);
    await emptyHere();
  },
);

test("a gateway uses its database, and refuses if Redis returns without it", async () => {
  const redisUrl = `${redis.url}/3`;
  const { gateway, address } = await webhooks.start({ endpoints: ENDPOINTS, redisUrl });
  expect((await post(address)).status).toBe(202);
  const app = ["SETUSER", "default", "on", "nopass", "~*", "&*", "+@all"];
  await redis.client.call("ACL", ...app, "-select");
  await redis.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  const refusal = await eventually("it is refused", async () => {
    const answer = await post(address);
    return answer.json()["code"] === "queue.denied" ? answer : undefined;
  });
  expect(refusal.status).toBe(503);
  expect(gateway.readiness().ready).toBe(false);
  await emptyHere();
  await redis.client.call("ACL", ...app);
  await eventually("calls are taken again", async () => (await post(address)).status === 202);
  await emptyHere();
});

const CONNECTIONS = [
  ["for requests", (url: Secret) => connectForRequests({ url }, silentLogger)],
  [
    "for work, which keeps commands until it is there",
    (url: Secret) => connectForWork({ url }, silentLogger),
  ],
  [
    "beside another one",
    (url: Secret) => {
      const first = connectForWork({ url }, silentLogger);
      ends.defer(() => first.disconnect());
      return connectBeside(first, {});
    },
  ],
] as const;

test.each(CONNECTIONS)(
  "no command of a connection %s runs in another database than its own",
  async (_, connect) => {
    const connection = connect(new Secret(`${redis.url}/7`));
    ends.defer(() => connection.disconnect());
    const refusals: string[] = [];
    connection.on("error", ({ message }) => refusals.push(message));
    connection.set("written", "in another database").catch(() => {});
    await eventually(
      "it has tried three times",
      () => refusals.filter((each) => /DB index/.test(each)).length >= 3,
    );
    expect(connection.status).not.toBe("ready");
    await emptyHere();
  },
);

test("a part refuses a connection of its host that is in another database than its options say", async () => {
  const connection = new Redis(`${redis.url}/7`, {
    ...{ enableOfflineQueue: false, maxRetriesPerRequest: 0 },
    ...{ autoResendUnfulfilledCommands: false, commandTimeout: 1500 },
  });
  ends.defer(() => connection.disconnect());
  connection.on("error", () => {});
  await eventually("it is open", () => connection.status === "ready");
  const gateway = createWebhooksGateway({
    ...{ serviceId: 7, redis: connection, postern: { console: { report: false } } },
    webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
  });
  ends.defer(() => gateway.close());
  await expect(gateway.ready()).rejects.toMatchObject({ code: "start.redis_denied" });
  await emptyHere();
});
