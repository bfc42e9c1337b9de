import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { usePricing, wireRequest } from "../../../../fixtures/pricing.ts";

const pricing = usePricing();

test("a request for a job without a price is answered with NOT_FOUND and the ids that it named", async () => {
  const engine = await pricing.engine();
  expect(await engine.ask(wireRequest({ job_index: 300 }))).toEqual({
    code: status.NOT_FOUND,
    details: "No pricing configured for service 42 job index 300",
  });
});

test("a service id of which a double keeps only a part is another service's, and is NOT_FOUND", async () => {
  const jobs = [{ serviceId: 2 ** 53 - 1, jobIndex: 0, priceWei: 100n }];
  const far = await pricing.engine({ jobs });
  const ask = (service_id: string) => far.ask(wireRequest({ service_id, job_index: 0 }));
  expect(await ask("9007199254740991")).toMatchObject({ code: status.OK });
  expect(await ask("18446744073709551615")).toEqual({
    code: status.NOT_FOUND,
    details: "No pricing configured for service 18446744073709551615 job index 0",
  });
});
