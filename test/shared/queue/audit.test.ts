import { expect, test } from "vitest";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";

const fixture = useFailedCalls();

test("every replayed and every discarded call has one line in the audit log and one in the log", async () => {
  const [a = "", b = ""] = await fixture.fail([{}, { claimed: false }]);
  const [lookA, lookB] = [await fixture.find(a), await fixture.find(b)];
  await fixture.replay(lookA, { selection: "--code runner.refused" });
  await fixture.replay(lookA, { selection: "--all" });
  await fixture.discard(lookB, { selection: "by id", reason: "a test call" });
  expect(await fixture.audited()).toEqual([
    {
      at: expect.any(String),
      action: "replay",
      call_id: a,
      by: "tester@fixture",
      selection: "--code runner.refused",
    },
    {
      ...{
        at: expect.any(String),
        action: "discard",
        call_id: b,
        by: "tester@fixture",
        selection: "by id",
      },
      reason: "a test call",
    },
  ]);
  const logged = fixture.log.events.filter(({ event }) => /replayed|discarded/.test(event));
  expect(logged.map(({ event, fields }) => [event, fields["callId"]])).toEqual([
    ["call.replayed", a],
    ["call.discarded", b],
  ]);
});
