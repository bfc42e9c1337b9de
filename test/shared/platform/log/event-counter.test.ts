import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createEventCounter } from "../../../../shared/platform/log/event-counter.ts";
import { recordingLog } from "../../../support/recording-log.ts";

test("a frequent event is logged at most once a second for each key, with its count", async () => {
  const log = recordingLog();
  const counter = createEventCounter(log, "request.limited");
  for (let i = 0; i < 1000; i += 1) counter.count("/a", { path: "/a" });
  counter.count("/b", { path: "/b" });
  expect(log.events).toEqual([]);
  await eventually("logged", () => log.events.length > 0);
  expect(log.events).toEqual([
    { event: "request.limited", fields: { path: "/a", times: 1000 } },
    { event: "request.limited", fields: { path: "/b", times: 1 } },
  ]);
  counter.count("/a", { path: "/a" });
  counter.flush();
  expect(log.events.at(-1)!.fields).toEqual({ path: "/a", times: 1 });
});
