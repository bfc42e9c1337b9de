import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { ENGINE, usePricing, wireRequest } from "../../../fixtures/pricing.ts";

const pricing = usePricing();

test("health says SERVING until the engine drains, during which it still answers", async () => {
  const engine = await pricing.engine();
  const health = (service: string) => engine.client.call("grpc.health.v1.Health", "Check", { service });
  for (const name of ["", ENGINE]) {
    await eventually("SERVING", async () => (await health(name)).response?.["status"] === "SERVING");
  }
  expect(await health("another")).toMatchObject({ code: status.NOT_FOUND });
  engine.service.drain();
  for (const name of ["", ENGINE]) {
    await eventually("NOT_SERVING", async () => (await health(name)).response?.["status"] === "NOT_SERVING");
  }
  expect(await engine.ask(wireRequest())).toMatchObject({ code: status.OK });
});
