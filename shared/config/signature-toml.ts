import { z } from "zod";
import { mustBe } from "../platform/text/must-be.ts";
import { boundaryProblem } from "../webhook-auth/boundary.ts";
import { isCovered } from "../webhook-auth/coverage.ts";
import { orElse } from "../webhook-auth/fields.ts";
import {
  type Algorithm,
  type Scheme,
  SECRET_FORMATS,
  type SecretFormat,
  scheme as schemeKeys,
  timestamp as timestampKeys,
} from "../webhook-auth/signature-scheme.ts";
import { type Part, parseTemplate, toPointer } from "../webhook-auth/template.ts";
import { between, rule } from "./between-keys.ts";
import { oneOf, type Problem, problem, report } from "./problem.ts";

/* The key `signature` of an endpoint, with the rules between its keys. */

const anyOfOne = "must have exactly one of";

function countOf(values: readonly unknown[]): number {
  return values.filter((value) => value !== undefined).length;
}

const timestamp = timestampKeys.check(
  between(
    rule(({ header, pair, field }) => countOf([header, pair, field]) === 1, {
      path: [],
      message: `${anyOfOne} header, pair and field`,
    }),
  ),
);

const scheme = schemeKeys.extend({ timestamp: timestamp.optional() }).check(
  between(
    rule(({ header, query, field }) => countOf([header, query, field]) === 1, {
      path: [],
      message: `${anyOfOne} header, query and field`,
    }),
    schemeProblems,
  ),
);

/**
 * Finds problems that involve several keys: the signature leaves out something that it must cover, or a key has no
 * effect.
 */
function schemeProblems(scheme: Scheme): Problem[] {
  const parts = parseTemplate(scheme.signed ?? "{body}");
  if (typeof parts === "string") return [];
  if (scheme.algorithm === "equal")
    return [...keyProblems(scheme), ...placeProblems(scheme), ...tokenProblems(scheme)];
  const boundary = boundaryProblem(parts, scheme.timestamp);
  const count: Count = (...kinds) => parts.filter(({ kind }) => kinds.includes(kind)).length;
  return [
    ...keyProblems(scheme),
    ...placeProblems(scheme),
    ...messageProblems(scheme, count),
    ...(boundary === undefined ? [] : [problem("signed", boundary)]),
    ...timeProblems(scheme, count),
  ];
}

/** Returns the number of signed parts of these kinds. */
type Count = (...kinds: Part["kind"][]) => number;

const FORMATS_OF_PUBLIC_KEYS: Partial<Record<Algorithm, readonly SecretFormat[]>> = {
  ed25519: ["ed25519-hex", "ed25519-whpk"],
  "ecdsa-p256": ["spki"],
};
const publicKeys = Object.values(FORMATS_OF_PUBLIC_KEYS).flat();
const FORMATS_OF_BYTES = SECRET_FORMATS.filter((format) => !publicKeys.includes(format));

function keyProblems({ algorithm, secret_format }: Scheme): Problem[] {
  const formats = FORMATS_OF_PUBLIC_KEYS[algorithm] ?? FORMATS_OF_BYTES;
  if (formats.includes(secret_format ?? "text")) return [];
  return [problem("secret_format", mustBe(`${oneOf(formats)} for ${algorithm}`, secret_format))];
}

function placeProblems({ header, prefix, prefix_optional, any_header, list }: Scheme): Problem[] {
  const problems: Problem[] = [];
  if (prefix !== undefined && list !== undefined)
    problems.push(problem("prefix", "must not be set together with list"));
  if (prefix_optional === true && prefix === undefined)
    problems.push(problem("prefix_optional", "is not used: prefix is not set"));
  if (any_header === true && [header].flat().length === 1)
    problems.push(problem("any_header", "is not used: header has at most one name"));
  return problems;
}

const NOT_OF_TOKENS = [...["signed", "encoding", "timestamp", "twilio"]] as const;

function tokenProblems(scheme: Scheme): Problem[] {
  const message = 'is not used: "equal" compares the secret itself';
  return NOT_OF_TOKENS.filter((key) => scheme[key] !== undefined).map((key) => problem(key, message));
}

function messageProblems({ algorithm, list, timestamp, signed, twilio }: Scheme, count: Count): Problem[] {
  const problems: Problem[] = [];
  if (twilio === true && signed !== "{url}{form}")
    problems.push(problem("twilio", 'is not used: signed is not "{url}{form}"'));
  const bodies = count("body", "form");
  if (bodies === 0 && count("field") === 0)
    problems.push(
      problem("signed", "must contain the body or a field of it: otherwise, the body could be replaced"),
    );
  if (bodies > 1) problems.push(problem("signed", "must not contain the body twice"));
  const isPlainHash = algorithm === "sha256" || algorithm === "keccak-256";
  const secrets = count("secret");
  if (isPlainHash && secrets === 0)
    problems.push(problem("signed", "must contain {secret}: the hash has no key"));
  if (!isPlainHash && secrets > 0) problems.push(problem("signed", "must not contain {secret}"));
  const readsPairs = count("pair", "named-headers") > 0 || timestamp?.pair !== undefined;
  if (readsPairs && list === undefined)
    problems.push(problem("list", "is missing: the signature uses a pair of it"));
  return problems;
}

function timeProblems(scheme: Scheme, count: Count): Problem[] {
  const isSigned = count("timestamp") > 0;
  if (scheme.timestamp === undefined)
    return isSigned ? [problem("timestamp", "is missing: signed contains {timestamp}")] : [];
  const { field, past_secs, future_secs } = scheme.timestamp;
  const problems: Problem[] = [];
  if (field !== undefined && isSigned)
    problems.push(
      problem("signed", `must not contain {timestamp}, because the time is in the body: use {body:${field}}`),
    );
  const isCoveredField =
    field !== undefined && isCovered([{ kind: "field", pointer: toPointer(field) }], [scheme]);
  if (!isSigned && !isCoveredField)
    problems.push(
      problem("timestamp", "must be covered by the signature: otherwise, a repeat could change it"),
    );
  if (past_secs !== undefined && future_secs === undefined)
    problems.push(problem(["timestamp", "future_secs"], "is missing: set both past_secs and future_secs"));
  if (past_secs === undefined && future_secs !== undefined)
    problems.push(problem(["timestamp", "past_secs"], "is missing: set both past_secs and future_secs"));
  return problems;
}

/**
 * Several schemes. None may have its signature in a `field` of the body, because the scheme is chosen before the body
 * arrives.
 */
const severalSchemes = z
  .array(scheme)
  .min(1)
  .max(8)
  .superRefine((schemes, context) => {
    const message = "is allowed only with one scheme: one of several is chosen before the body is read";
    if (schemes.length === 1) return;
    const late = schemes.flatMap(({ field }, index) => (field === undefined ? [] : [index]));
    report(
      context,
      late.map((index) => problem([index, "field"], message)),
    );
  });

export const signature = z
  .union([scheme, severalSchemes], orElse("a table or a list of tables"))
  .transform((one) => [one].flat());
