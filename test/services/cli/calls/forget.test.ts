import { expect, test } from "vitest";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { jsonLines, problemOf, usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { runHere } from "../run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));

const WHY = ["--reason", "asked by its sender"];
const run = (...args: string[]) => runHere([...args, "--config-dir", postern.configDir]);
const forget = (id: string, ...args: string[]) => run("calls", "forget", id, ...WHY, ...args);

test("postern calls forget ends a failed call for good, and says so", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const forgotten = await forget(id, "--yes");
  expect(forgotten).toMatchObject({ code: 0, stdout: `${id} is forgotten\n`, stderr: "" });
  expect(await fixture.calls.count({})).toBe(0);
  expect(await fixture.records.state(id)).toBe("DISCARDED");
  expect(await fixture.audited()).toMatchObject([
    { action: "forget", call_id: id, by: expect.stringMatching(/.@./), reason: "asked by its sender" },
  ]);
  const again = await forget(id, "--yes");
  expect(again).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/was already forgotten at 20.+Z\n$/),
  });
});

test("postern calls forget -o json says in one object whether this run has forgotten the call", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const [now] = jsonLines(await forget(id, "--yes", "-o", "json"));
  expect(now).toEqual({ changed: true, forgotten_before: null });
  const [again] = jsonLines(await forget(id, "--yes", "-o", "json"));
  expect(again).toMatchObject({ changed: false, forgotten_before: expect.stringMatching(/Z$/) });
});

test("postern calls forget needs a reason and a confirmation", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(await run("calls", "forget", id, "--yes")).toMatchObject({ code: 2 });
  expect(await run("calls", "forget", id, "--yes", "--reason", " ")).toMatchObject({ code: 2 });
  expect(await forget(id)).toMatchObject({ code: 2 });
  const asked: string[] = [];
  const answering = (answer: string) =>
    runHere(
      ["calls", "forget", id, ...WHY, "--config-dir", postern.configDir],
      {},
      {
        canAsk: true,
        async ask(question) {
          asked.push(question);
          return answer;
        },
      },
    );
  expect(await answering("no")).toMatchObject({ code: 1, stdout: "nothing was changed\n" });
  expect(await fixture.calls.count({})).toBe(1);
  expect(await answering("y")).toMatchObject({ code: 0 });
  expect(await fixture.calls.count({})).toBe(0);
  expect(asked[0]).toBe(
    `Delete the body, metadata, result and attempts of ${id}? This cannot be undone. [y/N] `,
  );
});

test("a waiting call and an unknown call are not forgotten, and the problem has a code", async () => {
  const waits = await fixture.add();
  expect(problemOf(await forget(waits, "--yes", "-o", "json"))).toMatchObject({
    code: "call.in_hand",
    detail: expect.stringContaining("the call is waiting in its queue"),
  });
  expect(problemOf(await forget(`c_${"0".repeat(32)}`, "--yes", "-o", "json"))["code"]).toBe("call.unknown");
});

test("a forgotten call cannot be shown, replayed or discarded: call.forgotten", async () => {
  const [id = "", other = ""] = await fixture.fail([{}, {}]);
  await forget(id, "--yes");
  for (const words of [
    ["failed", "show", id],
    ["failed", "replay", id],
    ["failed", "discard", id, "--yes", ...WHY],
  ]) {
    const ran = await run(...words, "-o", "json");
    expect([ran.code, problemOf(ran)["code"]]).toEqual([1, "call.forgotten"]);
    expect(problemOf(ran)["detail"]).toContain(`${id} was forgotten at`);
  }
  expect(await fixture.records.state(id)).toBe("DISCARDED");
  const both = await run("failed", "replay", id, other, "-o", "json");
  expect([both.code, problemOf(both)["code"]]).toEqual([1, "command.failed"]);
  expect(jsonLines(both)[0]).toMatchObject({
    done: 1,
    missing: [{ detail: expect.stringContaining("was forgotten") }],
  });
});
