import { expect, test } from "vitest";
import { listen } from "../../../../../shared/http/listen.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { sendRaw } from "../../../../support/http.ts";
import { counting } from "../../gated-jobs.ts";

const runners = useRunners();
const ends = useEnds();

test("a call whose body does not arrive in time is refused with 408 and does not run", async () => {
  const { seen, jobs } = counting();
  const { runner, get, log } = await runners.start({ jobs });
  const server = await listen(runner.handler, "127.0.0.1:0", { requestTimeoutMs: 400 });
  ends.defer(() => server.close(0));
  const headers = ["Host: runner", "Idempotency-Key: k", "Content-Length: 10"];
  const answer = await sendRaw(
    server.address,
    `POST /jobs/1 HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\nhalf`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  expect(answer).toContain('"code":"request.timed_out"');
  expect(log.events.at(-1)).toMatchObject({ event: "job.refused", fields: { callId: "k", status: 408 } });
  expect([(await get("/calls/k")).status, seen.runs]).toEqual([404, 0]);
});
