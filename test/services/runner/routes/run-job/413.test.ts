import { expect, test } from "vitest";
import { Secret } from "../../../../../shared/crypto/secret.ts";
import { signedHeaders, useRunners } from "../../../../fixtures/runners.ts";
import { counting } from "../../gated-jobs.ts";

const SECRET = new Secret("of producer and runner");

const runners = useRunners();

test("a call whose body is over the limit is refused with 413 and does not run, though it is signed", async () => {
  const { seen, jobs } = counting();
  const runner = await runners.start({ jobs, secrets: [SECRET], bodyBytesMax: 1_000_000 });
  const body = Buffer.alloc(1_000_001);
  const refused = await runner.offer("k", { body, headers: signedHeaders(SECRET, "k", { body }) });
  expect([refused.status, refused.json()["code"]]).toEqual([413, "request.too_large"]);
  expect(seen.runs).toBe(0);
});
