import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { usePricing, wireRequest } from "../../../../fixtures/pricing.ts";

const pricing = usePricing();

test("a request whose remembered quote cannot be read is answered with INTERNAL, and only the log says why", async () => {
  const engine = await pricing.engine();
  const request = wireRequest();
  await engine.ask(request);
  const { client } = pricing.redis;
  const [key = ""] = await client.keys("{postern}:pricing:proof:*");
  const fields = Object.keys(await client.hgetall(key));
  await client.hset(key, String(fields.find((field) => field.startsWith("quote "))), "broken");
  expect(await engine.ask(request)).toEqual({ code: status.INTERNAL, details: "Unexpected failure" });
  expect(engine.log.events.at(-1)).toMatchObject({
    event: "quote.refused",
    fields: { code: "internal.unexpected", reason: expect.stringContaining("cannot be read") },
  });
});
