import { expect, test } from "vitest";
import { KEY, usePricing, wireRequest } from "../../../../fixtures/pricing.ts";

const pricing = usePricing();

test("every outcome of a request for a price is logged as one event, without the key", async () => {
  const engine = await pricing.engine();
  await engine.ask(wireRequest());
  await engine.ask(wireRequest({ job_index: 9 }));
  const events = engine.log.events.filter(({ event }) => event.startsWith("quote."));
  expect(events).toEqual([
    {
      event: "quote.issued",
      fields: expect.objectContaining({
        via: "grpc",
        serviceId: "42",
        jobIndex: 3,
        priceWei: String(10n ** 18n),
      }),
    },
    { event: "quote.refused", fields: expect.objectContaining({ code: "job.not_found", status: 404 }) },
  ]);
  expect(engine.log.text()).not.toContain(KEY.slice(2));
});
