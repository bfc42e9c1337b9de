import { status } from "@grpc/grpc-js";
import { beforeAll, expect, test } from "vitest";
import { type Engine, usePricing, type Wire, wireRequest } from "../../../../fixtures/pricing.ts";
import { send } from "../../../../support/http.ts";
import { expectRefused, toJson } from "./quote-request.ts";

const pricing = usePricing();
let engine: Engine;
beforeAll(async () => {
  engine = await pricing.engine();
});

test.each<[string, Partial<Wire>]>([
  ["job without a price", { job_index: 4 }],
  ["service without jobs", { service_id: "18446744073709551615" }],
])("a request for a %s is answered with 404 and its ids, in the words of gRPC", async (_, fault) => {
  const request = wireRequest(fault);
  const expected = { status: 404, code: "job.not_found", grpc: status.NOT_FOUND };
  const answer = await expectRefused(engine, request, expected);
  const { service_id, job_index } = request;
  expect(answer.json()).toMatchObject({ service_id, job_index: String(job_index) });
});

test.each([
  "/pricing/jobs/42/3/quote/",
  "/pricing/jobs/42/3",
  "/pricing/jobs/042/3/quote",
  "/pricing/jobs/42/+3/quote",
  "/pricing/jobs/42/%33/quote",
  "/pricing/jobs/42/4294967296/quote",
  "/pricing/jobs/18446744073709551616/3/quote",
  "/PRICING/jobs/42/3/quote",
  "/pricing//jobs/42/3/quote",
  "/",
])("a POST to %s of a pricing engine is answered with 404", async (path) => {
  const body = JSON.stringify(toJson(wireRequest()));
  expect((await send(engine.http.address, { path, body })).json()).toMatchObject({
    status: 404,
    code: "request.not_found",
  });
});
