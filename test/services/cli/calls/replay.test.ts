import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { jsonLines, problemOf, usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { runHere } from "../run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));

const WHY = ["--reason", "the runner lost it"];
const run = (...args: string[]) => runHere([...args, "--config-dir", postern.configDir]);

async function delivered(): Promise<string> {
  const id = await fixture.add({ keepDelivered: { secs: 3600, bytes_max: 100_000 } });
  await fixture.startProducer();
  await eventually("it has ended", async () => (await fixture.records.state(id)) === "INJECTED");
  await fixture.stopProducer();
  return id;
}

test("postern calls replay queues a delivered webhook as a new call, and calls show names the original call", async () => {
  const id = await delivered();
  const replayed = await run("calls", "replay", id, ...WHY);
  expect(replayed).toMatchObject({ code: 0, stderr: "" });
  const [, again = ""] = /^c_\S+ is queued again as (c_[0-9a-f]{32})\n$/.exec(replayed.stdout) ?? [];
  expect((await run("calls", "show", again)).stdout).toMatch(new RegExp(`^replay of +${id}$`, "m"));
  expect((await run("calls", "show", id, "--body-only")).stdout).toBe(`body of ${id}`);
  expect(await fixture.audited()).toMatchObject([
    {
      action: "replay_delivered",
      call_id: id,
      by: expect.stringMatching(/.@./),
      reason: "the runner lost it",
    },
  ]);
});

test("postern calls replay -o json prints the new call, and each run makes another one", async () => {
  const id = await delivered();
  const made = [
    await run("calls", "replay", id, ...WHY, "-o", "json"),
    await run("calls", "replay", id, ...WHY, "-o", "json"),
  ];
  const lines = made.flatMap(jsonLines);
  expect(lines).toMatchObject([1, 2].map(() => ({ replay_of: id, changed: true })));
  expect(new Set(lines.map((line) => line["call_id"])).size).toBe(2);
});

test("postern calls replay needs a reason and a kept delivered webhook", async () => {
  const id = await delivered();
  expect(await run("calls", "replay", id)).toMatchObject({ code: 2 });
  expect(await run("calls", "replay", id, "--reason", " ")).toMatchObject({ code: 2 });
  const [failed = ""] = await fixture.fail([{}]);
  const refused = await run("calls", "replay", failed, ...WHY, "-o", "json");
  expect([refused.code, problemOf(refused)["code"]]).toEqual([1, "call.no_body"]);
});
