import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { usePricing, wireRequest } from "../../../../fixtures/pricing.ts";
import { expectRefused, post } from "./quote-request.ts";

const pricing = usePricing();

test("a request over HTTP that requires a TEE is refused with 503, in the words of gRPC", async () => {
  const engine = await pricing.engine();
  const expected = { status: 503, code: "pricing.tee_unavailable", grpc: status.UNAVAILABLE };
  await expectRefused(engine, wireRequest({ require_tee: true }), expected);
});

test("a request over HTTP is refused with 503 and Retry-After where Redis cannot be reached", async () => {
  const engine = await pricing.engine({ redisUrl: "redis://127.0.0.1:1", early: true });
  const expected = { status: 503, code: "pricing.unavailable", grpc: status.UNAVAILABLE };
  await expectRefused(engine, wireRequest(), expected);
  expect(Number((await post(engine, wireRequest())).headers["retry-after"])).toBeGreaterThan(0);
});
