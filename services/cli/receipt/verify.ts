import type { KeyObject } from "node:crypto";
import {
  RECEIPT_KEYS_PATH,
  type SignedReceipt,
  saltedDigest,
  type VerifiedReceipt,
  verifyReceipt,
} from "../../../shared/payments/receipt.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import { readText } from "../../../shared/platform/text/read-text.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { parseKeySet } from "../../../shared/webhook-auth/keys/jwk.ts";
import { bodyIn } from "../body.ts";
import { get, reasonOf, wordsOf } from "../http.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine } from "../text.ts";

export type VerifyOptions = {
  issuer: string;
  keys?: string;
  content?: string;
  json?: boolean;
  quiet?: boolean;
};

const KEYS_WITHIN_MS = 10_000;

/**
 * `postern receipt verify`: checks the signature of a receipt. Resolves with 0 if the receipt is valid. The gateway's
 * keys come from its URL, or with `--keys` from a file, so that no network is needed.
 */
export async function verifyFile(deps: ProgramDeps, file: string, options: VerifyOptions): Promise<number> {
  const { issuer, json, quiet } = options;
  try {
    const { jws, salt } = readReceipt(file);
    const keys = await keysOf(issuer, options.keys);
    const verified = explained(`the receipt in ${file} is not valid`, () => verifyReceipt(jws, keys, issuer));
    if (options.content !== undefined) requireContent(verified, salt, options.content);
    if (json) deps.print(jsonLine({ valid: true, type: verified.type, claims: verified.claims }));
    else if (!quiet) deps.print(receiptText(verified));
    return EXIT.ok;
  } catch (error) {
    deps.printError(`${messageOf(error)}\n`);
    return EXIT.failed;
  }
}

/** Reads a receipt from a file, which has either the JSON of a gateway's answer or the receipt alone, as a JWS. */
function readReceipt(file: string): SignedReceipt {
  const text = explained(file, () => readText(file)).trim();
  if (!text.startsWith("{")) return { jws: text };
  const answer = parseJson(text) as { signed_receipt?: unknown } | undefined;
  const { jws, salt } = (answer?.signed_receipt ?? answer ?? {}) as Record<string, unknown>;
  if (typeof jws !== "string") throw new Error(`${file} has no receipt: it must be a JWS, or JSON with jws`);
  return { jws, ...(typeof salt === "string" && { salt }) };
}

async function keysOf(issuer: string, file: string | undefined): Promise<KeyObject[]> {
  const text = file === undefined ? await fetchKeys(issuer) : explained(file, () => readText(file));
  const from = file ?? `${issuer}${RECEIPT_KEYS_PATH}`;
  return explained(`the keys from ${from} cannot be used`, () => parseKeySet(text)).map(({ key }) => key);
}

async function fetchKeys(issuer: string): Promise<string> {
  const url = new URL(`${issuer}${RECEIPT_KEYS_PATH}`);
  const answer = await get(url, systemClock() + KEYS_WITHIN_MS).catch((cause: unknown) => {
    throw new Error(`cannot get the keys from ${url.href}: ${reasonOf(cause)}`, { cause });
  });
  if (answer.status !== 200) throw new Error(`cannot get the keys from ${url.href}: ${wordsOf(answer)}`);
  return answer.body.toString("utf8");
}

function requireContent({ digest }: VerifiedReceipt, salt: string | undefined, file: string): void {
  if (salt === undefined)
    throw new Error("--content needs the salt of the receipt, which the file does not have");
  if (saltedDigest(salt, sha256Hex(bodyIn(file))) !== digest)
    throw new Error(`the receipt does not cover the content of ${file}, or the salt is wrong`);
}

function receiptText({ claims }: VerifiedReceipt): string {
  const { iat, ...others } = claims;
  const rows = Object.entries(others).map(([name, value]) => [name, String(value)] as const);
  return `the receipt is valid\n${facts([...rows, ["signed at", toIso(iat * 1000)]])}`;
}

function explained<Result>(what: string, work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    throw new Error(`${what}: ${messageOf(cause)}`, { cause });
  }
}
