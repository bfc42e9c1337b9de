import { uintWord } from "../../shared/ethereum/encoding.ts";
import type { JobPriceAnswer, JobPriceRequest } from "./job-price.ts";

/** GetJobPriceRequest as proto-loader reads it: all fields are there, a uint64 is a decimal string. */
export type RequestMessage = {
  service_id: string;
  job_index: number;
  proof_of_work: Buffer;
  challenge_timestamp: string;
  require_tee: boolean;
  requester: Buffer;
  inputs_hash: Buffer;
};

export function toRequest(message: RequestMessage): JobPriceRequest {
  return {
    serviceId: BigInt(message.service_id),
    jobIndex: message.job_index,
    proofOfWork: message.proof_of_work,
    challengeTimestamp: BigInt(message.challenge_timestamp),
    requireTee: message.require_tee,
    requester: message.requester,
    inputsHash: message.inputs_hash,
  };
}

/** GetJobPriceResponse for proto-loader to write. */
export function toResponse({ signed, operator, proofOfWork, settlement }: JobPriceAnswer) {
  const { quote, signature } = signed;
  return {
    quote_details: {
      service_id: String(quote.serviceId),
      job_index: quote.jobIndex,
      price: Buffer.from(uintWord(quote.priceWei), "hex"),
      timestamp: String(quote.timestamp),
      expiry: String(quote.expiry),
      confidentiality: quote.confidentiality,
      requester: toBytes(quote.requester),
      inputs_hash: toBytes(quote.inputsHash),
    },
    signature: toBytes(signature),
    operator_id: toBytes(operator),
    proof_of_work: proofOfWork,
    ...(settlement && { settlement_options: settlement.options, x402_endpoint: settlement.endpoint }),
    tee_attested: false,
    tee_provider: "",
  };
}

export type ResponseMessage = ReturnType<typeof toResponse>;

function toBytes(hex: `0x${string}`): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}
