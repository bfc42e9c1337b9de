import { describe, expect, test } from "vitest";
import { type Inject, Refused } from "../../../../services/producer/producer.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { useProducer } from "../../../fixtures/producer.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { useRejections } from "../../console/rejections.ts";
import { runHereWith } from "../run-here.ts";

const redis = useRedis();
const webhooks = useWebhooks({ redis });
const producers = useProducer({ redis });
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "operator") } },
  webhooks: { endpoints: ENDPOINTS },
}));
const here = runHereWith(postern);
const ENDPOINTS = [
  { path: "/a", job_id: 1, auth: "none", idempotency_header: "X-Id", event_type: "{header:X-Event}" },
];

/** Takes each call, except those with the body `refused`. */
const inject: Inject = async ({ body }) => {
  if (body.toString() === "refused") throw new Refused("400");
};

test("postern calls list shows the state of each call: waiting, failed, or injected and remembered", async () => {
  const { address } = await webhooks.start({ endpoints: ENDPOINTS });
  const send = async (deliveryId: string): Promise<string> => {
    const headers = { "X-Id": deliveryId, "X-Event": "order.created" };
    const answer = await fetch(`http://${address}/a`, { method: "POST", body: deliveryId, headers });
    return ((await answer.json()) as { call_id: string }).call_id;
  };

  // The calls end one after the other, because the list is sorted by the time of the end.
  const injected = await send("taken");
  const { producer, saw } = producers.start({ inject, history: { history_secs: 3600 } });
  await saw("call.injected");
  const failed = await send("refused");
  await saw("call.failed");
  await producer.close(3000);
  const waiting = await send("late");

  const all = await here(["calls", "list", "-o", "json"]);
  expect(all.code).toBe(0);
  expect(jsonLines(all).map(({ id, state }) => [id, state])).toEqual([
    [waiting, "waiting"],
    [failed, "failed"],
    [injected, "injected"],
  ]);
  const known = { origin: "webhook", endpoint: "/a", job: "7/1" };
  for (const [deliveryId, id, state] of [
    ["taken", injected, "injected"],
    ["refused", failed, "failed"],
    ["late", waiting, "waiting"],
  ] as const) {
    const found = await here(["calls", "list", "--delivery-id", deliveryId, "-o", "json"]);
    expect(jsonLines(found)).toMatchObject([{ id, state, delivery_id: deliveryId, ...known }]);
  }
  const shown = await here(["calls", "list", "--endpoint", "/a", "--limit", "2"]);
  expect(shown.stdout).toMatch(
    /^CALL +UPDATED +AGE +STATE +ORIGIN +JOB +DETAILS\n(?:c_.*\n){2}2 calls found; there are more/,
  );
  expect((await here(["calls", "list", "--state", "failed"])).stdout).toContain("runner.refused: ");
  const queued = await here(["calls", "list", "--state", "queued"]);
  expect(queued.stdout).toMatch(/ waiting +webhook \/a +7\/1 +delivery late\n1 call found\n$/);
  expect((await here(["calls", "list", "--state", "missing"])).stdout).toContain(
    "0 calls found; a call in this state may be found only by its id (--call), or by --endpoint and --delivery-id together\n",
  );
  for (const [text, ids] of [
    [injected.slice(0, 10).toUpperCase(), [injected]],
    ["REFU", [failed]],
    ["runner.refused: ", [failed]],
    ["7/1", [waiting, failed, injected]],
    ["created", [waiting, failed, injected]],
    ["nothing like this", []],
  ] as const) {
    const found = await here(["calls", "list", "--text", text, "-o", "name"]);
    expect([text, found.stdout.split("\n").filter(Boolean)]).toEqual([text, ids]);
  }
  expect(jsonLines(await here(["calls", "list", "--event", "order.created", "-o", "json"]))).toHaveLength(3);
  expect(jsonLines(await here(["calls", "list", "--code", "runner.refused", "-o", "json"]))).toMatchObject([
    { id: failed, event: "order.created" },
  ]);
  const counted = await here(["calls", "list", "--facets"]);
  expect(counted.stdout.replaceAll(/ +/g, " ").split("\n")).toEqual([
    "FACET VALUE CALLS",
    ...["state failed 1", "state injected 1", "state waiting 1", "endpoint /a 3", "job 7/1 3"],
    ...["event order.created 3", "code runner.refused 1", "3 calls found", ""],
  ]);
  const failures = await here(["calls", "list", "--facets", "--state", "failed", "-o", "json"]);
  expect(jsonLines(failures)).toContainEqual({ facet: "code", value: "runner.refused", count: 1 });
  const life = await here(["calls", "show", injected, "-o", "json"]);
  expect(jsonLines(life)).toMatchObject([
    {
      state: "injected",
      job_id: 1,
      delivery_id: "taken",
      attempts: 1,
      timeline: [{ what: "created" }, { what: "injected" }],
    },
  ]);
});

test.each([
  ["c_1234*", /must be plain text without wildcards: the start of an id/],
  ["state:failed", /must be plain text without operators: use the filter state instead of "state:"/],
  [" ", /must not be empty: give the start of an id/],
])("a search for the text %j is refused with an explanation before anything is read", async (text, says) => {
  const refused = await here(["calls", "list", "--text", text]);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(says);
});

describe("the id of a refused request", () => {
  const rejections = useRejections(redis);

  test("finds no call, and the output names the command that shows the request", async () => {
    const [{ id = "" } = {}] = rejections.newest;
    const found = await here(["calls", "list", "--text", id]);
    expect(found.stdout).toContain("0 calls found");
    expect(`${found.stdout}${found.stderr}`).toContain(
      `${id} is a refused request, not a call: postern rejected show ${id} shows it`,
    );
  });
});
