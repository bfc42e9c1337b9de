import { expect, test } from "vitest";
import { ENGINE, usePricing } from "../../../fixtures/pricing.ts";

const pricing = usePricing();

type Field = { number: number; name: string; type: string; label: string; typeName: string };

test("a client that knows the engine only by reflection finds the engine and health", async () => {
  const { client } = await pricing.engine();
  expect(await client.services()).toEqual(expect.arrayContaining([ENGINE, "grpc.health.v1.Health"]));
});

test("a client that knows the engine only by reflection learns the number and the type of every field", async () => {
  const { client } = await pricing.engine();
  const described = await client.describe(ENGINE);
  const fieldsOf = (message: string) => {
    const { type } = described[`pricing_engine.${message}`] as unknown as { type: { field: Field[] } };
    return type.field.map(({ number, name, type, label, typeName }) =>
      [
        ...[number, name, type.replace("TYPE_", "").toLowerCase()],
        ...(typeName ? [typeName] : []),
        ...(label === "LABEL_REPEATED" ? ["repeated"] : []),
      ].join(" "),
    );
  };
  expect(fieldsOf("GetJobPriceRequest")).toEqual([
    "1 service_id uint64",
    "2 job_index uint32",
    "3 proof_of_work bytes",
    "4 challenge_timestamp uint64",
    "5 require_tee bool",
    "6 requester bytes",
    "7 inputs_hash bytes",
  ]);
  expect(fieldsOf("GetJobPriceResponse")).toEqual([
    "1 quote_details message JobQuoteDetails",
    "2 signature bytes",
    "3 operator_id bytes",
    "4 proof_of_work bytes",
    "5 settlement_options message SettlementOption repeated",
    "6 x402_endpoint string",
    "7 tee_attested bool",
    "8 tee_provider string",
  ]);
  expect(fieldsOf("JobQuoteDetails")).toEqual([
    "1 service_id uint64",
    "2 job_index uint32",
    "3 price bytes",
    "4 timestamp uint64",
    "5 expiry uint64",
    "6 confidentiality uint32",
    "7 requester bytes",
    "8 inputs_hash bytes",
  ]);
  expect(fieldsOf("SettlementOption")).toEqual(
    ["network", "asset", "symbol", "amount", "pay_to", "scheme"].map((name, i) => `${i + 1} ${name} string`),
  );
});
