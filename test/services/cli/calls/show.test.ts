import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { openBackends } from "../../../../shared/queue/backend.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines, problemOf, usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { WORK } from "../../../support/results.ts";
import { runHere, runHereWith } from "../run-here.ts";

const payments = usePayments();
const fixture = useFailedCalls({ redis: payments.redis, fresh: "file" });
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));

const run = runHereWith(postern);
const show = (id: string, ...args: string[]) =>
  runHere(["calls", "show", id, ...args, "--config-dir", postern.configDir]);

const TIME = String.raw`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;

test("postern calls show prints the life of a failed call as a timeline, with its facts", async () => {
  const [id = ""] = await fixture.fail([{ body: Buffer.from("hello") }]);
  const ran = await run(["calls", "show", id]);
  expect([ran.code, ran.stderr]).toEqual([0, ""]);
  const lines = [
    `call +${id}`,
    String.raw`state +failed since ${TIME} \(\d+s ago\)`,
    "origin +webhook",
    "job +7/1",
    String.raw`body +5 bytes, application/json, sha256 2cf24d\w+ \(--body-only prints it\)`,
    "result +none: the call failed",
    "endpoint +/hooks/a",
    "attempts +1",
    "traceparent +00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "trace id +0af7651916cd43dd8448eb211c80319c",
    "",
    "timeline",
    `  ${TIME}  created`,
    // The runner's text must not control a terminal.
    String.raw`  ${TIME}  attempt failed  attempt 1: runner\.refused: the runner said no  \[31m \(producer .+\)`,
    String.raw`  ${TIME}  failed          runner\.refused: the runner said no  \[31m`,
    "",
    "metadata",
    "  X-WEBHOOK-PATH  /hooks/a",
    "",
  ];
  const printed = ran.stdout.split("\n");
  expect(printed).toHaveLength(lines.length);
  for (const [i, line] of lines.entries()) expect(printed[i]).toMatch(new RegExp(`^${line}$`));
});

onlyInLongRun(() => {
  test("postern calls show says who replayed or discarded a call and why, with the attempts of all replays", async () => {
    const [id = ""] = await fixture.fail([{}], "runner.failed", "500 no");
    await fixture.replay(await fixture.find(id), { selection: "by id", reason: "the database\nis back" });
    const waits = (await show(id)).stdout;
    expect(waits).toMatch(/attempts +3 \(1 replay\)\n/);
    expect(waits).toMatch(/attempt failed +attempt 3: runner\.failed: 500 no/);
    fixture.runnerAnswers("runner.failed", "500 still no");
    await fixture.startProducer();
    await eventually("it has failed again", () => fixture.calls.find(id));
    await fixture.stopProducer();
    fixture.runnerAnswers();
    await fixture.discard(await fixture.find(id), { selection: "by id", reason: "sent twice" });
    const { stdout } = await show(id);
    const attempt = (n: number, reason: string) =>
      String.raw`attempt failed  attempt ${n}: runner\.failed: ${reason} \(producer .+\)`;
    const failed = (reason: string) => String.raw`failed          runner\.failed: ${reason}`;
    const lines = [
      ...[1, 2, 3].map((n) => attempt(n, "500 no")),
      failed("500 no"),
      "replayed        by tester@fixture: the database is back",
      ...[4, 5, 6].map((n) => attempt(n, "500 still no")),
      failed("500 still no"),
      "discarded       by tester@fixture: sent twice",
    ];
    const timeline = (stdout.split("timeline\n")[1] ?? "").trimEnd().split("\n");
    expect(timeline).toHaveLength(lines.length);
    for (const [i, line] of lines.entries()) expect(timeline[i]).toMatch(new RegExp(`^  ${TIME}  ${line}$`));
  });
});

test("postern calls show -o json prints the same data as one object, without the body", async () => {
  const [id = ""] = await fixture.fail([{ body: Buffer.from("hello") }]);
  const [shown] = jsonLines(await show(id, "-o", "json"));
  expect(shown).toMatchObject({
    ...{ call_id: id, state: "failed", origin: "webhook", service_id: 7, job_id: 1 },
    ...{ queue: { name: "webhook/7/1", as: "failed", due_at: null }, attempts: 1, replays: 0, bytes: 5 },
    ...{ metadata: { "X-WEBHOOK-PATH": "/hooks/a" }, body_kept: true, result: { what: "none kept" } },
    ...{ payment: null, forgotten_at: null },
  });
  const timeline = shown?.["timeline"] as { what: string; at: string }[];
  expect(timeline.map(({ what }) => what)).toEqual(["created", "attempt failed", "failed"]);
  expect(timeline[1]).toMatchObject({
    n: 1,
    code: "runner.refused",
    worker: expect.any(String),
    ms: expect.any(Number),
  });
  expect(JSON.stringify(shown)).not.toContain(Buffer.from("hello").toString("base64"));
});

test("postern calls show --body-only also prints the bytes of a waiting call, while they are kept", async () => {
  const id = await fixture.add({ body: Buffer.from("as it came\n") });
  expect((await show(id)).stdout).toMatch(/^state +waiting, queued since /m);
  expect(await show(id, "--body-only")).toMatchObject({ code: 0, stdout: "as it came\n" });
  expect(await show(id, "--result-only")).toMatchObject({ code: 1, stdout: "" });
  await fixture.startProducer();
  await eventually("it has ended", async () => (await fixture.records.state(id)) === "INJECTED");
  await fixture.stopProducer();
  const ended = await show(id, "--body-only");
  expect(ended).toMatchObject({ code: 1, stdout: "" });
  expect(ended.stderr).toContain("its body is not kept; the call is injected");
});

onlyInLongRun(() => {
  test("postern calls show says since when and until when a call is delayed", async () => {
    const failedAt = new Date(Date.now() - 500);
    const id = await fixture.add({ acceptedAt: Date.now() - 3_600_000 });
    const backend = openBackends(fixture.redis.partition, WORK)("webhook/7/1");
    await backend.fetch("worker:1", { bytes: undefined, alone: false });
    const failed = { at: failedAt.getTime(), code: "runner.failed", reason: "500 no", worker: "w" };
    await fixture.records.attemptFailed({ id, queue: "webhook/7/1", take: 1 }, failed, 1);
    await backend.moveToDelayed(id, Date.now(), 60_000, "worker:1", {});
    const state = /^state +(.*)$/m.exec((await show(id)).stdout)?.[1];
    expect(state).toMatch(
      new RegExp(String.raw`^delayed since ${failedAt.toISOString()} \(\d+s ago\) until ${TIME} \(.+\)$`),
    );
  });
});

test("postern calls show prints the life of a paid call, and the bytes of its result", async () => {
  const id = await payments.buy();
  let meanwhile = "";
  await payments.startProducer(async () => {
    meanwhile = (await show(id)).stdout;
    return { status: 200, contentType: "text/plain", body: "the answer" };
  });
  await eventually(
    "it has ended",
    async () => (await payments.gateway.journal.findWithoutCall(id))?.state === "INJECTED",
  );
  expect(meanwhile).toMatch(/^state +in flight, queued since /m);
  const { stdout } = await show(id);
  expect(stdout).toMatch(/state +injected since /);
  expect(stdout).toMatch(/result +10 bytes \(--result-only prints it\)/);
  expect(stdout).toContain(`${payments.payer.address.toLowerCase()} (postern payments show ${id})`);
  expect(stdout).toMatch(
    /claimed +payment verified by http.+; the whole call is on disk before any money moves\n/,
  );
  expect(stdout).toMatch(
    /settled +transaction 0x[0-9a-f]{64}, reported by the facilitator, not yet confirmed at the configured depth\n/,
  );
  expect(stdout).toMatch(/result +200, text\/plain, 10 bytes, in the runner's answer\n/);
  expect(await show(id, "--result-only")).toMatchObject({ code: 0, stdout: "the answer" });
  expect(jsonLines(await show(id, "-o", "json"))[0]).toMatchObject({
    payment: { call_id: id, state: "injected" },
  });
});

test("a forgotten call is shown as forgotten, and an unknown one is call.unknown", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await runHere(["calls", "forget", id, "--yes", "--reason", "x", "--config-dir", postern.configDir]);
  const { stdout } = await show(id);
  expect(stdout).toMatch(
    /FORGOTTEN +by an operator: the data from its sender was deleted, and the call never runs again\n/,
  );
  expect(stdout).toMatch(/ forgotten\n$/);
  expect(stdout).not.toContain("/hooks/a");
  const unknown = await show(`c_${"0".repeat(32)}`, "-o", "json");
  expect([unknown.code, problemOf(unknown)["code"]]).toEqual([1, "call.unknown"]);
});
