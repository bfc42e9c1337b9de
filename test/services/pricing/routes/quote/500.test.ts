import { expect, test } from "vitest";
import { usePricing, wireRequest } from "../../../../fixtures/pricing.ts";
import { post } from "./quote-request.ts";

const pricing = usePricing();

test("a request whose remembered quote cannot be read is answered with 500, and only the log says why", async () => {
  const engine = await pricing.engine();
  const request = wireRequest();
  await post(engine, request);
  const { client } = pricing.redis;
  const [key = ""] = await client.keys("{postern}:pricing:proof:*");
  const fields = Object.keys(await client.hgetall(key));
  await client.hset(key, String(fields.find((field) => field.startsWith("quote "))), "broken");
  const answer = await post(engine, request);
  expect([answer.status, answer.json()["code"]]).toEqual([500, "internal.unexpected"]);
  expect(answer.text).not.toContain("cannot be read");
  expect(engine.log.events.at(-1)).toMatchObject({
    event: "quote.refused",
    fields: { via: "http", reason: expect.stringContaining("cannot be read") },
  });
});
