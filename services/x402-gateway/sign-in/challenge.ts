import type { IncomingMessage, ServerResponse } from "node:http";
import { encodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { sendProblem } from "../../../shared/http/problem.ts";
import type { AppError } from "../../../shared/platform/errors/app-error.ts";
import { NONCE_MS, type SignInNonces } from "./nonce.ts";

/** The extension's name, and in upper case that of its header. */
export const SIGN_IN_WITH_X = "sign-in-with-x";

/** What a wallet shows of why to sign, in the letters that EIP-4361 has for it. */
const STATEMENT = "I ask for the result of a call that I have paid for.";

export const SIGN_IN_VERSION = "1";

/** What every sign-in to a call says, whoever signs. */
export type SignInTerms = { domain: string; uri: string; statement: string };

/** A sign-in is to the URL of a call's result, as the configuration has it: no Host counts, and no query is part of it. */
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
  /** CAIP-2, in the order of the configuration: clients sign for the first. */
  networks: readonly string[];
};

export type AskForSignIn = ReturnType<typeof createAskForSignIn>;

/**
 * Answers whoever has not proven that he has paid for a call: a 402 that offers nothing to pay, and asks to sign in with a fresh nonce.
 * It says the same of any id, and costs no look at anything.
 */
export function createAskForSignIn({ nonces, termsOf, networks }: Deps) {
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

/** The form of what the header holds, which the extension wants told. */
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
