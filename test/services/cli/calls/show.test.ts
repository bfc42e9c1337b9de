import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines, problemOf, usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { runHere } from "../run-here.ts";

const payments = usePayments();
const fixture = useFailedCalls({ redis: payments.redis, fresh: "file" });
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));

const show = (id: string, ...args: string[]) =>
  runHere(["calls", "show", id, ...args, "--config-dir", postern.configDir]);

const TIME = String.raw`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;

test("postern calls show prints the life of a failed call as a timeline, and what it is", async () => {
  const [id = ""] = await fixture.fail([{ body: Buffer.from("hello") }]);
  const ran = await postern.run(["calls", "show", id]);
  expect([ran.code, ran.stderr]).toEqual([0, ""]);
  const lines = [
    `call +${id}`,
    `state +failed since ${TIME}`,
    "origin +webhook",
    "job +1 of service 7",
    "queue +failed in webhook/7/1",
    String.raw`body +5 bytes, application/json, sha256 2cf24d\w+ \(--body-only\)`,
    "result +its job keeps none",
    "endpoint +/hooks/a",
    "traceparent +00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "",
    "timeline",
    `  ${TIME}  accepted`,
    `  ${TIME}  queued`,
    // What the runner said cannot control a terminal.
    String.raw`  ${TIME}  attempt failed  attempt 1: runner\.refused: the runner said no  \[31m \(worker .+\)`,
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

test("postern calls show --json has the same as one object, and no body", async () => {
  const [id = ""] = await fixture.fail([{ body: Buffer.from("hello") }]);
  const [shown] = jsonLines(await show(id, "--json"));
  expect(shown).toMatchObject({
    ...{ call_id: id, state: "failed", origin: "webhook", service_id: 7, job_id: 1 },
    ...{ queue: { name: "webhook/7/1", as: "failed", due_at: null }, attempts_before: 0, bytes: 5 },
    ...{ metadata: { "X-WEBHOOK-PATH": "/hooks/a" }, body_kept: true, result: { what: "none kept" } },
    ...{ payment: null, forgotten_at: null },
  });
  const timeline = shown?.["timeline"] as { what: string; at: string }[];
  expect(timeline.map(({ what }) => what)).toEqual(["accepted", "queued", "attempt failed", "failed"]);
  expect(timeline[2]).toMatchObject({ n: 1, code: "runner.refused", worker: expect.any(String) });
  expect(JSON.stringify(shown)).not.toContain(Buffer.from("hello").toString("base64"));
});

test("postern calls show --body-only prints the bytes of a call that waits too, while they are kept", async () => {
  const id = await fixture.add({ body: Buffer.from("as it came\n") });
  expect((await show(id)).stdout).toContain("queue        waiting in webhook/7/1");
  expect(await show(id, "--body-only")).toMatchObject({ code: 0, stdout: "as it came\n" });
  expect(await show(id, "--result-only")).toMatchObject({ code: 1, stdout: "" });
  await fixture.startProducer();
  await eventually("it has ended", async () => (await fixture.records.state(id)) === "INJECTED");
  await fixture.stopProducer();
  const ended = await show(id, "--body-only");
  expect(ended).toMatchObject({ code: 1, stdout: "" });
  expect(ended.stderr).toContain("its body is not kept; the call is injected");
});

test("postern calls show prints the life of a paid call, and the bytes of its result", async () => {
  const id = await payments.buy();
  await payments.startProducer(async () => ({ status: 200, contentType: "text/plain", body: "the answer" }));
  await eventually(
    "it has ended",
    async () => (await payments.gateway.journal.look(id))?.state === "INJECTED",
  );
  const { stdout } = await show(id);
  expect(stdout).toMatch(/state +injected since /);
  expect(stdout).toMatch(/result +10 bytes \(--result-only\)/);
  expect(stdout).toContain(`${payments.payer.address.toLowerCase()} (postern payments show ${id})`);
  expect(stdout).toMatch(/claimed +verified by http.+, and on disk before it was settled\n/);
  expect(stdout).toMatch(/settled +transaction 0x[0-9a-f]{64}, said by the facilitator/);
  expect(stdout).toMatch(/result +200, text\/plain, 10 bytes, the runner's answer\n/);
  expect(await show(id, "--result-only")).toMatchObject({ code: 0, stdout: "the answer" });
  expect(jsonLines(await show(id, "--json"))[0]).toMatchObject({
    payment: { call_id: id, state: "injected" },
  });
});

test("a forgotten call is shown as such, and an unknown one is call.unknown", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await runHere(["calls", "forget", id, "--yes", "--reason", "x", "--config-dir", postern.configDir]);
  const { stdout } = await show(id);
  expect(stdout).toMatch(/FORGOTTEN +by an operator/);
  expect(stdout).toMatch(/ forgotten\n$/);
  expect(stdout).not.toContain("/hooks/a");
  const unknown = await show(`c_${"0".repeat(32)}`, "--json");
  expect([unknown.code, problemOf(unknown)["code"]]).toEqual([1, "call.unknown"]);
});
