import { describe, expect, test } from "vitest";
import { CODES } from "../../../shared/platform/errors/codes.ts";
import { adviceFor, CREDENTIAL_KINDS, REASONS } from "../../../shared/webhook-auth/advice.ts";

const code = "webhook.credential_rejected";

describe.each([...CREDENTIAL_KINDS, null])("advice for a credential of kind %s", (credential) => {
  const isSignature = ["digest", "key-pair", "certificate"].some((kind) => kind === credential);
  const isAuthorization = ["bearer", "basic", "jwt"].includes(credential ?? "");
  const advice = (reason: string) => adviceFor({ code, reason, credential });

  test.each(REASONS)(
    "a refusal for %s, with or without details, explains the fault and the remedy",
    (reason) => {
      for (const text of [reason, `${reason}: header x-signature`]) {
        expect(advice(text)?.says).toMatch(/^(the|no) [a-z ]+$/);
        expect(advice(text)?.todo).toMatch(/^[A-Z].*\.$/);
      }
    },
  );

  test.each(REASONS)(
    "the advice for %s mentions changed bodies only if the credential covers them",
    (reason) => {
      const speaksOfBodies = /\bbod(?:y|ies)\b|\bsigned?\b/.test(advice(reason)?.todo ?? "");
      expect(speaksOfBodies).toBe(reason === "mismatch" && isSignature);
    },
  );

  test.each(REASONS)("the advice for %s mentions clocks only if the time was wrong", (reason) => {
    expect(/\bclock\b/.test(advice(reason)?.todo ?? "")).toBe(reason === "stale" || reason === "early");
  });

  test.each(REASONS)(
    "the advice for %s mentions the Authorization header only if it holds the credential",
    (reason) => {
      const concerns = isAuthorization && (reason === "missing" || reason === "malformed");
      expect(/\bAuthorization\b/.test(advice(reason)?.todo ?? "")).toBe(concerns);
    },
  );

  test("only the advice for a mismatch without details is to add a new secret, if the credential has one", () => {
    const adds = (reason: string) => advice(reason)?.todo.includes("secret = [old, new]");
    // A token's keys belong to its issuer, and a certificate is fetched. So the operator has no secret to add.
    expect(REASONS.filter(adds)).toEqual(
      ["jwt", "certificate"].includes(credential ?? "") ? [] : ["mismatch"],
    );
    expect(adds("mismatch: the username does not match")).toBe(false);
  });
});

test.each([
  ["bearer", "token"],
  ["basic", "password"],
  ["api-key", "secret"],
  ["token", "token"],
  ["digest", "secret"],
  ["key-pair", "public key"],
] as const)("what may be new at a sender that uses %s is its %s", (credential, name) => {
  const todo = adviceFor({ code, reason: "mismatch", credential })?.todo;
  expect(todo).toContain(`If the sender has a new ${name}, `);
});

test("a refusal for another reason than the credential has no such advice", () => {
  const others = Object.keys(CODES).filter((each) => each !== code);
  for (const other of others)
    expect(adviceFor({ code: other, reason: "mismatch", credential: null })).toBeUndefined();
  for (const reason of ["", "toString", "too long", "mismatched"])
    expect(adviceFor({ code, reason, credential: "digest" })).toBeUndefined();
});
