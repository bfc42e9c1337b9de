import { z } from "zod";
import { ALGORITHMS, ENCODINGS, type Scheme, SECRET_FORMATS, TIME_UNITS } from "../senders/description.ts";
import { type Part, parseTemplate } from "../senders/template.ts";
import { headerName } from "./fields.ts";
import { mustBe, pointer, REQUEST_PARTS, template } from "./template-fields.ts";

/* The key `signature` of an endpoint, checked. It comes out as it went in, for the code that reads presets too. */

const signedText = template([
  ...REQUEST_PARTS,
  "body",
  "pair",
  "named-headers",
  "timestamp",
  "method",
  "url",
  "form",
  "secret",
]);

const anyOfOne = "name exactly one of";

function countOf(values: readonly unknown[]): number {
  return values.filter((value) => value !== undefined).length;
}

const timestamp = z
  .strictObject({
    header: headerName.optional(),
    pair: z.string().min(1).optional(),
    field: pointer.optional(),
    unit: z.enum(TIME_UNITS),
    past_secs: z.number().min(0).optional(),
    future_secs: z.number().min(0).optional(),
  })
  .refine(
    ({ header, pair, field }) => countOf([header, pair, field]) === 1,
    `${anyOfOne} header, pair and field`,
  );

const scheme = z
  .strictObject({
    header: z
      .union([headerName, z.array(headerName).min(1)], mustBe("a header name or a list of them"))
      .optional(),
    query: z.string().min(1).optional(),
    field: pointer.optional(),
    any_header: z.boolean().optional(),
    prefix: z.string().optional(),
    prefix_optional: z.boolean().optional(),
    list: z
      .strictObject({
        separator: z.string().min(1),
        assign: z.string().min(1).optional(),
        key: z.string().min(1),
      })
      .optional(),
    encoding: z.enum(ENCODINGS).optional(),
    algorithm: z.enum(ALGORITHMS),
    secret_format: z.enum(SECRET_FORMATS).optional(),
    signed: signedText.optional(),
    body_sha256_query: z.string().min(1).optional(),
    url_port_optional: z.boolean().optional(),
    timestamp: timestamp.optional(),
    require: z.record(headerName, z.string()).optional(),
  })
  .refine(
    ({ header, query, field }) => countOf([header, query, field]) === 1,
    `${anyOfOne} header, query and field`,
  )
  .superRefine((parsed, context) => {
    for (const [key, message] of schemeProblems(parsed as Scheme)) {
      context.addIssue({ code: "custom", path: [key], message });
    }
  });

/** What no single key can know: whether the signature covers what it has to. */
function schemeProblems(scheme: Scheme): [key: keyof Scheme, message: string][] {
  const parts = parseTemplate(scheme.signed ?? "{body}");
  if (typeof parts === "string" || scheme.algorithm === "equal") return [];
  const has = (...kinds: Part["kind"][]) => parts.some(({ kind }) => kinds.includes(kind));
  return [...messageProblems(scheme, has), ...timeProblems(scheme, has)];
}

type Has = (...kinds: Part["kind"][]) => boolean;

function messageProblems(scheme: Scheme, has: Has): [keyof Scheme, string][] {
  const { algorithm, list, body_sha256_query } = scheme;
  const problems: [keyof Scheme, string][] = [];
  if (!has("body", "form", "field") && body_sha256_query === undefined)
    problems.push(["signed", "holds nothing of the body, which then anybody could replace"]);
  const isPlainHash = algorithm === "sha256" || algorithm === "keccak-256";
  if (isPlainHash && !has("secret")) problems.push(["signed", "must hold {secret}: the hash has no key"]);
  if (!isPlainHash && has("secret")) problems.push(["signed", "must not hold {secret}"]);
  const readsPairs = has("pair", "named-headers") || scheme.timestamp?.pair !== undefined;
  if (readsPairs && list === undefined) problems.push(["list", "is needed, since a pair of it is used"]);
  return problems;
}

function timeProblems({ timestamp }: Scheme, has: Has): [keyof Scheme, string][] {
  if (timestamp === undefined)
    return has("timestamp") ? [["timestamp", "is needed, since {timestamp} is signed"]] : [];
  const isSigned = timestamp.field === undefined ? has("timestamp") : has("body", "field");
  if (isSigned) return [];
  return [["timestamp", "is not covered by the signature: whoever replays a request could change it"]];
}

export const signature = z
  .union([scheme, z.array(scheme).min(1).max(8)], mustBe("a table or a list of tables"))
  .transform((one) => [one].flat() as readonly Scheme[]);
