import { fromJSON, type Options, type PackageDefinition } from "@grpc/proto-loader";

/** A uint64 is a decimal string, so that no bit is lost. Fields keep their names of the .proto file. */
export const PROTO_OPTIONS: Options = { keepCase: true, longs: String, defaults: true };

/** Type and number of each field, as in pricing-engine.proto. They are code, because the build copies no .proto file. */
const MESSAGES = {
  GetJobPriceRequest: {
    service_id: ["uint64", 1],
    job_index: ["uint32", 2],
    proof_of_work: ["bytes", 3],
    challenge_timestamp: ["uint64", 4],
    require_tee: ["bool", 5],
    requester: ["bytes", 6],
    inputs_hash: ["bytes", 7],
  },
  GetJobPriceResponse: {
    quote_details: ["JobQuoteDetails", 1],
    signature: ["bytes", 2],
    operator_id: ["bytes", 3],
    proof_of_work: ["bytes", 4],
    settlement_options: ["SettlementOption", 5, "repeated"],
    x402_endpoint: ["string", 6],
    tee_attested: ["bool", 7],
    tee_provider: ["string", 8],
  },
  JobQuoteDetails: {
    service_id: ["uint64", 1],
    job_index: ["uint32", 2],
    price: ["bytes", 3],
    timestamp: ["uint64", 4],
    expiry: ["uint64", 5],
    confidentiality: ["uint32", 6],
    requester: ["bytes", 7],
    inputs_hash: ["bytes", 8],
  },
  SettlementOption: {
    network: ["string", 1],
    asset: ["string", 2],
    symbol: ["string", 3],
    amount: ["string", 4],
    pay_to: ["string", 5],
    scheme: ["string", 6],
  },
} as const;

const PricingEngine = {
  methods: { GetJobPrice: { requestType: "GetJobPriceRequest", responseType: "GetJobPriceResponse" } },
};

export const SERVICE_NAME = "pricing_engine.PricingEngine";

/** The package `pricing_engine`, for a gRPC server or client. */
export function pricingEngineProto(): PackageDefinition {
  const messages = Object.entries(MESSAGES).map(([name, fields]) => [name, { fields: toFields(fields) }]);
  const nested = { PricingEngine, ...Object.fromEntries(messages) };
  return fromJSON({ nested: { pricing_engine: { nested } } }, PROTO_OPTIONS);
}

function toFields(fields: Readonly<Record<string, readonly [string, number, "repeated"?]>>) {
  const entries = Object.entries(fields).map(([name, [type, id, rule]]) => [name, { type, id, rule }]);
  return Object.fromEntries(entries);
}
