import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();
const JSON_BODY = Buffer.from('{"reason":"x"}');

test.each([
  ["gzip", gzipSync(JSON_BODY)],
  ["gzip", JSON_BODY],
  ["br", JSON_BODY],
])("a body with Content-Encoding: %s is refused with 415, and nothing is paused", async (coding, body) => {
  const { ask, get } = await fixture.start();
  const headers = {
    "Content-Type": "application/json",
    "Content-Encoding": coding,
    "Content-Length": String(body.length),
  };
  const refused = await ask("POST", "/api/v1/jobs/7/1/pause", { headers, ...{ body } });
  expect(refusalOf(refused)).toEqual([415, "request.encoding_unsupported"]);
  expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
});
