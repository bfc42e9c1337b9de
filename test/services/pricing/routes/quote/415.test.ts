import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { usePricing, wireRequest } from "../../../../fixtures/pricing.ts";
import { send } from "../../../../support/http.ts";
import { toJson } from "./quote-request.ts";

const pricing = usePricing();

test("a request for a quote in a content coding is refused with 415", async () => {
  const engine = await pricing.engine();
  const answer = await send(engine.http.address, {
    path: "/pricing/jobs/42/3/quote",
    headers: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
    body: gzipSync(JSON.stringify(toJson(wireRequest()))),
  });
  expect([answer.status, answer.json()["code"]]).toEqual([415, "request.encoding_unsupported"]);
});
