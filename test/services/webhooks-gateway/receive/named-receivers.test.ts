import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { NAMED_QUEUES_MAX } from "../../../../shared/ingress/named-receivers.ts";
import { keys } from "../../../fixtures/redis.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { addCallbacks, manyReceivers } from "../../../support/callback-queues.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { partitionsOver } from "../../../support/partitions.ts";

const callback_hosts = ["listed.example.com", "*.example.com"];
const endpoints = [
  { path: "/a", job_id: 1, auth: "none", callback_hosts },
  { path: "/b", job_id: 1, auth: "none", callback_hosts },
  { path: "/own", job_id: 1, auth: "none", callback_url: "https://dead.example.com/" },
];

const webhooks = useWebhooks();
const naming = (to: TestWebhooks, host: string | undefined, path = "/a") => {
  const headers = host === undefined ? {} : { "X-PLATFORM-CALLBACK": `https://${host}/hook` };
  return send(to.address, { path, headers, body: "x" });
};
const statusOf = async (...asked: Parameters<typeof naming>) => (await naming(...asked)).status;
const ofEndpointA = keys.namedReceivers("endpoint:/a");
const DAY_AGO = String(Date.now() - 86_400_001);

test("requests to one endpoint can name a limited number of receivers by wildcards, even concurrently at several gateways, and other endpoints are not affected", async () => {
  const limits = { callback_receivers_max: 10 };
  const [one, other] = [
    await webhooks.start({ endpoints, limits }),
    await webhooks.start({ endpoints, limits }),
  ];
  const hosts = manyReceivers(40);
  const answers = await Promise.all(hosts.map((host, i) => naming(i % 2 === 0 ? one : other, host)));
  const accepted = hosts.filter((_host, i) => answers[i]?.status === 202);
  expect(accepted).toHaveLength(10);
  const refused = answers.find(({ status }) => status !== 202);
  expect(refused?.json()).toMatchObject({
    ...{ status: 503, code: "queue.overloaded" },
    detail: "over the limit: callback receivers. Name a receiver that was named before, or none.",
  });
  expect(await webhooks.waiting()).toHaveLength(10);
  for (const host of [...accepted, "listed.example.com", undefined])
    expect(await statusOf(one, host)).toBe(202);
  expect(await statusOf(one, "another.example.com", "/b")).toBe(202);
});

test("a receiver that no request has named for a day no longer counts, unless callbacks to it wait or have failed", async () => {
  const gateway = await webhooks.start({ endpoints, limits: { callback_receivers_max: 2 } });
  const { client, partition } = webhooks.redis;
  const [waiting = "", gone = ""] = manyReceivers(2);
  for (const host of [waiting, gone]) expect(await statusOf(gateway, host)).toBe(202);
  expect(await statusOf(gateway, "third.example.com")).toBe(503);
  await addCallbacks(partition, [waiting]);
  for (const host of [waiting, gone]) await client.zadd(ofEndpointA, DAY_AGO, `callback/7/1/${host}`);
  expect(await statusOf(gateway, "third.example.com")).toBe(202);
  expect(await client.zrange(ofEndpointA, "0", "-1")).toEqual([
    `callback/7/1/${waiting}`,
    "callback/7/1/third.example.com",
  ]);
  expect(await statusOf(gateway, "fourth.example.com")).toBe(503);
});

test("all endpoints and payers together can name a limited number of receivers, and known receivers may be named again", async () => {
  const gateway = await webhooks.start({ endpoints });
  const { client } = webhooks.redis;
  const known = manyReceivers(NAMED_QUEUES_MAX);
  await client.zadd(
    keys.allNamedReceivers,
    ...known.flatMap((host) => [String(Date.now()), `callback/7/1/${host}`]),
  );
  expect(await statusOf(gateway, "another.example.com")).toBe(503);
  expect(await client.exists(ofEndpointA)).toBe(0);
  for (const host of [known[0], known.at(-1), "listed.example.com"])
    expect(await statusOf(gateway, host)).toBe(202);
});

const KIB = "x".repeat(1024);
/** With this limit, all callbacks may use one megabyte, and those of one receiver a fifth of it. */
const limits = { queue_bytes_max: 8 * 2 ** 20 };
const times = (count: number, host: string) => Array.from({ length: count }, () => host);

const refuses = (gateway: TestWebhooks, host: string) =>
  eventually(`${host} is crowded`, async () => {
    const answer = await naming(gateway, host);
    return answer.status === 503 ? answer : undefined;
  });

test("a backlog of callbacks refuses only the requests that name its receiver", async () => {
  const gateway = await webhooks.start({ endpoints, limits });
  await addCallbacks(webhooks.redis.partition, times(150, "slow.example.com"), KIB);
  await addCallbacks(webhooks.redis.partition, times(5000, "dead.example.com"), KIB);
  expect((await refuses(gateway, "dead.example.com")).json()).toMatchObject({
    code: "queue.overloaded",
    detail: "over the limit: callbacks that wait for the receiver that the request names",
  });
  for (const host of ["slow.example.com", "idle.example.com", undefined])
    expect(await statusOf(gateway, host)).toBe(202);
  expect(await statusOf(gateway, undefined, "/own")).toBe(202);
});

onlyInLongRun(() => {
  test("a receiver counts in every partition that has its callbacks", async () => {
    const { client, url } = webhooks.redis;
    const gateway = await webhooks.start({
      ...{ endpoints, redisUrls: Array<string>(4).fill(url), limits: { callback_receivers_max: 1 } },
    });
    const partitions = partitionsOver(client, 4);
    for (const partition of partitions.all) {
      const named = partition.keys.namedReceivers("endpoint:/a");
      await client.zadd(named, DAY_AGO, "callback/7/1/dead.example.com");
      if (partition.index > 0) await addCallbacks(partition, ["dead.example.com"]);
    }
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => naming(gateway, "another.example.com")),
    );
    const accepted = answers.filter(({ status }) => status === 202);
    const places = accepted.map((answer) => partitions.indexOf(String(answer.json()["call_id"])));
    expect(new Set(places)).toEqual(new Set([0]));
  });

  test("a receiver that accepts callbacks can still be named, no matter how many others do not answer", async () => {
    const gateway = await webhooks.start({ endpoints, limits });
    const dead = manyReceivers(20);
    for (const host of dead) await addCallbacks(webhooks.redis.partition, times(100, host), KIB);
    for (const host of dead) await refuses(gateway, host);
    expect(await statusOf(gateway, "idle.example.com")).toBe(202);
  });
});
