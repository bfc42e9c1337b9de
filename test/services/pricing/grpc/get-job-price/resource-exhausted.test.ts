import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { usePricing, wireRequest } from "../../../../fixtures/pricing.ts";

const pricing = usePricing();

test("a request of more than 16 KiB is refused as RESOURCE_EXHAUSTED", async () => {
  const engine = await pricing.engine();
  const { code } = await engine.ask(wireRequest({ inputs_hash: Buffer.alloc(17_000) }));
  expect(code).toBe(status.RESOURCE_EXHAUSTED);
});
