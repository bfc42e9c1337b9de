import type { IncomingMessage } from "node:http";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  createSignatureCheck,
  type SignatureCheck,
} from "../../../../services/webhooks-gateway/signature-check.ts";
import { webhooksToml } from "../../../../shared/config/webhooks-toml.ts";
import { AppError } from "../../../../shared/platform/errors/app-error.ts";
import { schemesOf } from "../../../../shared/webhook-auth/auth-modes.ts";
import type { Scheme } from "../../../../shared/webhook-auth/signature-scheme.ts";
import { RequestValues, toParts } from "../../../../shared/webhook-auth/template.ts";
import { endpointFor, sendersWithPreset } from "../../../fixtures/senders/endpoints.ts";
import type { Sender, Signed } from "../../../fixtures/senders/sender.ts";
import { LONG_RUN, sample } from "../../../support/long-run.ts";

const NOW = Date.parse("2026-11-22T12:00:00Z");
const FILE = webhooksToml({ env: {} });
const SIGNING = sendersWithPreset.filter((sender) =>
  schemesFor(sender).some(({ algorithm }) => algorithm !== "equal"),
);

/** Senders for which bytes are moved between all places. For every sender, bytes are also changed. */
const SAMPLED = sample(SIGNING);
const CHANGES = { numRuns: LONG_RUN ? 200 : 10 };

function endpointOf(sender: Sender) {
  const endpoints = [endpointFor(sender, "/any", [sender.key("any").configured])];
  const [endpoint] = FILE.parse({ endpoints }).endpoints;
  if (endpoint === undefined) throw new Error("no endpoint");
  return endpoint;
}

function schemesFor(sender: Sender): readonly Scheme[] {
  return schemesOf(endpointOf(sender).proof) ?? [];
}

function checkOf(sender: Sender): SignatureCheck {
  const endpoint = endpointOf(sender);
  const secrets = "secret" in endpoint ? (endpoint.secret ?? []) : [];
  return createSignatureCheck(schemesOf(endpoint.proof) ?? [], secrets, {
    publicUrl: endpoint.public_url,
    clock: () => NOW,
  });
}

const signedBy = (sender: Sender): Signed =>
  sender.sign(sender.sample, { keys: [sender.key("any")], at: new Date(NOW), id: "msg-1" });

/** Returns why a request is refused; undefined if its signature is valid. */
function refusal(check: SignatureCheck, { method, target, headers, body }: Signed): string | undefined {
  const req = { method, url: target, rawHeaders: headers.flat() } as unknown as IncomingMessage;
  try {
    check(req).check(new RequestValues(req, body));
    return undefined;
  } catch (error) {
    if (error instanceof AppError && error.code === "webhook.credential_rejected") return error.message;
    throw error;
  }
}

/** Returns the headers, in lower case, that the schemes read: the signature, the time and other signed headers. */
function signedHeaders(sender: Sender, { headers }: Signed): string[] {
  const named = schemesFor(sender).flatMap((scheme) => [
    ...[scheme.header ?? []].flat(),
    ...[scheme.timestamp?.header ?? []].flat(),
    ...Object.keys(scheme.require ?? {}),
    ...toParts(scheme.signed ?? "{body}").flatMap((part) => (part.kind === "header" ? part.names : [])),
    ...(scheme.signed?.includes("{named-headers:h}") ? ["x-event-id", "x-event-type"] : []),
  ]);
  const names = new Set(named.map((name) => name.toLowerCase()));
  return headers.map(([name]) => name.toLowerCase()).filter((name) => names.has(name));
}

/** Returns requests with the same signed bytes, but with a different boundary between header and body. */
function shifted(signed: Signed, header: string, times: readonly string[]): Signed[] {
  const body = signed.body.toString("latin1");
  const value = signed.headers.find(([name]) => name.toLowerCase() === header)?.[1] ?? "";
  const shifts: [value: string, body: string][] = [];
  for (const between of ["", ".", ":", ...times, ...times.map((time) => `.${time}.`)]) {
    for (let at = 1; at < value.length; at++) {
      shifts.push([value.slice(0, at), value.slice(at) + between + body]);
      if (value.startsWith(between, at))
        shifts.push([value.slice(0, at), value.slice(at + between.length) + between + body]);
    }
    for (let at = body.indexOf(between, 1); at !== -1 && at < body.length; at = body.indexOf(between, at + 1))
      shifts.push([value + between + body.slice(0, at), body.slice(at + between.length)]);
  }
  return shifts.map(([text, rest]) => ({
    ...signed,
    headers: signed.headers.map(([name, old]) => [name, name.toLowerCase() === header ? text : old]),
    body: Buffer.from(rest, "latin1"),
  }));
}

/** Generates a text with one character changed. */
const changed = (text: string) =>
  fc
    .tuple(fc.nat(Math.max(0, text.length - 1)), fc.integer({ min: 0x21, max: 0x7e }))
    .map(([at, code]) => text.slice(0, at) + String.fromCharCode(code) + text.slice(at + 1))
    .filter((other) => other !== text);

/** Generates a body with a byte changed, removed or added. */
const changedBody = (body: Buffer) =>
  fc
    .tuple(fc.nat(body.length - 1), fc.integer({ min: 1, max: 255 }), fc.integer({ min: 0, max: 2 }))
    .map(([at, byte, how]) => {
      const bytes = [...body];
      if (how === 0) bytes[at] = (bytes[at] ?? 0) ^ byte;
      else if (how === 1) bytes.splice(at, 1);
      else bytes.splice(at, 0, byte);
      return Buffer.from(bytes);
    });

/** Form fields are signed decoded and without their separators, as docs/senders.md says. */
const bindsBody = ({ bodyUnbound, name }: Sender) => !bodyUnbound && !name.startsWith("twilio (form");

/** Removes versions of a signature that prove nothing. Their content is ignored. */
const withoutIgnored = (value: string) => value.replace(/^(t=\d+),.*(,h=)/, "$1$2");

/** Returns other spellings of the same bytes, and texts that a careless decoder would accept. */
const otherSpellings = (value: string): string[] => [
  value.toUpperCase(),
  value.toLowerCase(),
  `${value}=`,
  `${value}zz`,
  value.replaceAll("+", "-").replaceAll("/", "_"),
  value.replace(/=+$/, ""),
];

const numberSpellings = (digits: string): string[] => [
  `+${digits}`,
  `0${digits}`,
  `${digits}.0`,
  Number(digits).toExponential(),
  `0x${Number(digits).toString(16)}`,
  ` ${digits}`,
  digits.slice(0, -1),
  "",
];

describe.each(SIGNING.map((sender) => [sender.name, sender] as const))("%s", (_name, sender) => {
  const check = checkOf(sender);
  const signed = signedBy(sender);
  const sentAs = (header: string) =>
    signed.headers.find(([name]) => name.toLowerCase() === header)?.[1] ?? "";
  const withValue = (header: string, text: string): Signed => ({
    ...signed,
    headers: signed.headers.map(([name, value]) => [name, name.toLowerCase() === header ? text : value]),
  });

  test("is accepted as it was signed", () => {
    expect(refusal(check, signed)).toBeUndefined();
  });

  if (bindsBody(sender))
    test("is refused with any byte of its body changed", () => {
      fc.assert(
        fc.property(changedBody(signed.body), (body) => refusal(check, { ...signed, body }) !== undefined),
        CHANGES,
      );
    });

  test.each(signedHeaders(sender, signed))("is refused with any character of %s changed", (header) => {
    const value = sentAs(header);
    fc.assert(
      fc.property(changed(value), (text) => {
        fc.pre(withoutIgnored(text) !== withoutIgnored(value));
        return refusal(check, withValue(header, text)) !== undefined;
      }),
      CHANGES,
    );
  });

  const times = signedHeaders(sender, signed)
    .map(sentAs)
    .filter((text) => /\d{10}|\d-\d\dT/.test(text));
  const unlike = Buffer.from(JSON.stringify({ memo: `x.y:${[...times, ...times].join(".evil")}{.}` }));
  if (SAMPLED.includes(sender) && bindsBody(sender) && !sender.needsBody)
    test.each(signedHeaders(sender, signed))("is refused if bytes move between %s and the body", (header) => {
      const other = sender.sign(unlike, { keys: [sender.key("any")], at: new Date(NOW), id: "msg-1" });
      expect(refusal(check, other)).toBeUndefined();
      const accepted = shifted(other, header, times).filter((each) => refusal(check, each) === undefined);
      expect(accepted).toEqual([]);
    });

  const places = new Set(
    schemesFor(sender).flatMap(({ header }) => [header ?? []].flat().map((name) => name.toLowerCase())),
  );
  test.each(signedHeaders(sender, signed).filter((header) => places.has(header)))(
    "is refused with %s in another spelling of the same bytes",
    (header) => {
      const value = sentAs(header);
      for (const text of otherSpellings(value).filter((other) => other !== value))
        expect([text, refusal(check, withValue(header, text))]).not.toEqual([text, undefined]);
    },
  );

  const timestamp = schemesFor(sender)[0]?.timestamp;
  if (sender.timed && (timestamp?.unit === "s" || timestamp?.unit === "ms"))
    test("is refused before its MAC is checked if its time is a number in another spelling", () => {
      const digits = String(timestamp.unit === "s" ? NOW / 1000 : NOW);
      for (const spelling of numberSpellings(digits)) {
        const other: Signed = {
          ...signed,
          headers: signed.headers.map(([name, value]) => [name, value.replace(digits, spelling)]),
          body: Buffer.from(signed.body.toString("latin1").replace(digits, spelling), "latin1"),
        };
        const reason = expect.stringMatching(
          timestamp.field === undefined ? /^malformed/ : /^(?:malformed|mismatch|missing)/,
        );
        expect([spelling, refusal(check, other)]).toEqual([spelling, reason]);
      }
    });
});
