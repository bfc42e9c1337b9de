import type { IncomingMessage, ServerResponse } from "node:http";
import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { sendProblem } from "../../../shared/http/problem.ts";
import type { AppError } from "../../../shared/platform/errors/app-error.ts";
import { NONCE_MS, type SignInNonces } from "./nonce.ts";

/** Name of the x402 extension by which a payer signs in. The header of the sign-in has the same name, in upper case. */
export const SIGN_IN_WITH_X = "sign-in-with-x";

/** Text that a wallet shows its user as the reason for the signature. EIP-4361 limits its characters. */
const STATEMENT = "I ask for the result of a call that I have paid for.";

export const SIGN_IN_VERSION = "1";

/** Members of a sign-in message that are the same for every signer. */
export type SignInTerms = { domain: string; uri: string; statement: string };

/**
 * Creates the function that returns the fixed members of a sign-in to a call. They name the URL of the call's result, which is
 * made from the configured `public_url`, without a query. The request's Host header is not used, because a client can write any
 * host there.
 */
export function createTermsOf(publicUrl: string): (callId: string) => SignInTerms {
  const { host, href } = new URL(publicUrl);
  const base = href.replace(/\/$/, "");
  return (callId) => ({
    domain: host,
    uri: `${base}/x402/calls/${callId}/result`,
    statement: STATEMENT,
  });
}

type Deps = {
  nonces: SignInNonces;
  termsOf: (callId: string) => SignInTerms;
  /** CAIP-2 names of the accepted networks, in the order of the configuration. Clients sign for the first one. */
  networks: readonly string[];
};

export type RequireSignIn = ReturnType<typeof createRequireSignIn>;

/**
 * Creates the function that answers a client that asks for a call's result without proof that it has paid for the call. The
 * answer is a 402 that offers nothing to buy. It asks the client to sign in, which means to sign a message that contains a fresh
 * nonce. The answer does not show whether the call exists, because nothing is read from Redis for it.
 */
export function createRequireSignIn({ nonces, termsOf, networks }: Deps) {
  const supportedChains = networks.map((chainId) => ({ chainId, type: "eip191" }));

  function toRequired(callId: string, error: string): PaymentRequired {
    const terms = termsOf(callId);
    const { nonce, issuedAt } = nonces.issue(callId);
    const info = {
      ...terms,
      version: SIGN_IN_VERSION,
      nonce,
      issuedAt: new Date(issuedAt).toISOString(),
      expirationTime: new Date(issuedAt + NONCE_MS).toISOString(),
    };
    return {
      x402Version: 2,
      error,
      resource: { url: terms.uri },
      accepts: [],
      extensions: { [SIGN_IN_WITH_X]: { info, supportedChains, schema: SCHEMA } },
    };
  }

  return (req: IncomingMessage, res: ServerResponse, callId: string, why: AppError): void => {
    const required = toRequired(callId, why.publicDetail);
    const headers = { "PAYMENT-REQUIRED": encodePaymentRequiredHeader(required) };
    sendProblem(req, res, why, { headers, members: required });
  };
}

const TEXT = { type: "string" } as const;
const TIME = { type: "string", format: "date-time" } as const;

/** JSON Schema of the sign-in header's content. The extension requires that the 402 contains it. */
const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    domain: TEXT,
    address: TEXT,
    statement: TEXT,
    uri: { type: "string", format: "uri" },
    version: TEXT,
    chainId: TEXT,
    type: TEXT,
    nonce: TEXT,
    issuedAt: TIME,
    expirationTime: TIME,
    notBefore: TIME,
    signature: TEXT,
  },
  required: [
    "domain",
    "address",
    "statement",
    "uri",
    "version",
    "chainId",
    "type",
    "nonce",
    "issuedAt",
    "signature",
  ],
} as const;
