import { z } from "zod";
import { readCdpKey } from "../platform/crypto/cdp-key.ts";
import { Secret } from "../platform/crypto/secret.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import { httpUrl, isPrivateUrl, isTable } from "./fields.ts";
import { type Problem, problem, report } from "./problem.ts";
import { type SecretSource, secretHeaders, secretValue } from "./secrets.ts";

/** A facilitator of x402.toml with its credentials. */
export type FacilitatorConfig = {
  url: string;
  /** Headers of every request to the facilitator, by lower-case name. */
  headers: Readonly<Record<string, Secret>>;
  /** An API key of Coinbase's CDP, which signs every request to the facilitator. */
  cdp?: { key_id: Secret; key_secret: Secret } | undefined;
};

const facilitatorUrl = httpUrl.refine(isPrivateUrl, "must be an https URL, or an http URL on this machine");

function cdpKey(from: SecretSource) {
  const keySecret = secretValue(from).transform((secret, context) => {
    try {
      readCdpKey(secret.reveal());
      return new Secret(secret.reveal().trim()); // a PEM in a file ends with a line break
    } catch (error) {
      context.addIssue(messageOf(error));
      return z.NEVER;
    }
  });
  return z.strictObject({ key_id: secretValue(from), key_secret: keySecret });
}

/** Keys of x402.toml that name the facilitators. `facilitatorProblems` checks the rules between them. */
export function facilitatorKeys(from: SecretSource) {
  const one = z.strictObject({
    url: facilitatorUrl,
    headers: secretHeaders(from),
    cdp: cdpKey(from).optional(),
  });
  return {
    facilitator_url: z
      .preprocess(
        (value) => (typeof value === "string" ? [value] : value),
        z.array(facilitatorUrl).min(1, "must list at least one facilitator"),
      )
      .meta({ writtenAs: z.union([facilitatorUrl, z.array(facilitatorUrl).min(1)]) })
      .optional(),
    facilitator_headers: secretHeaders(from),
    facilitators: z.array(one).min(1, "must list at least one facilitator").optional(),
  };
}

type Given = {
  facilitator_url?: string[] | undefined;
  facilitator_headers: FacilitatorConfig["headers"];
  facilitators?: FacilitatorConfig[] | undefined;
};

/** Converts both ways of naming facilitators to one list. */
export function withFacilitators<File extends Given>(file: File, context: z.RefinementCtx) {
  const { facilitator_url = [], facilitator_headers, facilitators, ...rest } = file;
  report(context, facilitatorProblems(file));
  const listed = facilitator_url.map((url): FacilitatorConfig => ({ url, headers: facilitator_headers }));
  return { ...rest, facilitators: facilitators ?? listed };
}

type Row = Readonly<Record<string, unknown>>;

/**
 * Finds problems between the keys that name facilitators. Takes the file before its validation, so that other problems
 * do not hide these.
 */
export function facilitatorProblems({ facilitator_url, facilitator_headers, facilitators }: Row): Problem[] {
  if (facilitator_url === undefined && facilitators === undefined) {
    const message = "is missing: set facilitator_url or [[facilitators]]";
    return [{ path: ["facilitator_url"], message, other: ["facilitators"] }];
  }
  const urls = Array.isArray(facilitator_url) ? facilitator_url : [facilitator_url];
  const rows = Array.isArray(facilitators) ? facilitators.map((row) => (isTable(row) ? row : {})) : [];
  return [
    ...(facilitator_url !== undefined && facilitators !== undefined
      ? [problem("facilitators", "must not be set together with facilitator_url: set one of the two")]
      : []),
    ...sharedHeaders(facilitator_headers, urls.length, facilitators !== undefined),
    ...repeated(urls, (index) => ["facilitator_url", index]),
    ...repeated(
      rows.map(({ url }) => url),
      (index) => ["facilitators", index, "url"],
    ),
    ...rows.flatMap(signedTwice),
  ];
}

/** Reports headers that several facilitators share, because each facilitator would get the credentials of all. */
function sharedHeaders(headers: unknown, urls: number, hasTables: boolean): Problem[] {
  if (!isTable(headers) || Object.keys(headers).length === 0 || (urls === 1 && !hasTables)) return [];
  const message =
    "needs exactly one facilitator_url; for several, set the headers of each in [[facilitators]]";
  return [problem("facilitator_headers", message)];
}

function repeated(urls: readonly unknown[], pathOf: (index: number) => PropertyKey[]): Problem[] {
  const known = urls.map((url) => (typeof url === "string" && URL.canParse(url) ? hrefOf(url) : undefined));
  return known.flatMap((url, index) =>
    url === undefined || known.indexOf(url) === index ? [] : [problem(pathOf(index), "is listed twice")],
  );
}

function hrefOf(url: string): string {
  return new URL(url).href.replace(/\/$/, "");
}

function signedTwice({ headers, cdp }: Row, index: number): Problem[] {
  if (cdp === undefined || !isTable(headers)) return [];
  const names = Object.keys(headers).filter((name) => name.toLowerCase() === "authorization");
  return names.map((name) =>
    problem(
      ["facilitators", index, "headers", name],
      "must not be set together with cdp, which sets this header",
    ),
  );
}
