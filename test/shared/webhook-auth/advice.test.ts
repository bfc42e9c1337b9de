import { describe, expect, test } from "vitest";
import { CODES } from "../../../shared/platform/errors/codes.ts";
import { adviceFor, CREDENTIAL_KINDS, REASONS } from "../../../shared/webhook-auth/advice.ts";

const code = "webhook.credential_rejected";

describe.each([...CREDENTIAL_KINDS, null])("of a credential of kind %s", (credential) => {
  const isSignature = credential === "digest" || credential === "key-pair";
  const isAuthorization = credential === "bearer" || credential === "basic";
  const advice = (reason: string) => adviceFor({ code, reason, credential });

  test.each(REASONS)(
    "a refusal for %s, with or without details, says what is wrong and what to do",
    (reason) => {
      for (const text of [reason, `${reason}: header x-signature`]) {
        expect(advice(text)?.says).toMatch(/^(the|no) [a-z ]+$/);
        expect(advice(text)?.todo).toMatch(/^[A-Z].*\.$/);
      }
    },
  );

  test.each(REASONS)(
    "the advice for %s speaks of changed bodies only if the credential covers them",
    (reason) => {
      const speaksOfBodies = /\bbod(?:y|ies)\b|\bsigned?\b/.test(advice(reason)?.todo ?? "");
      expect(speaksOfBodies).toBe(reason === "mismatch" && isSignature);
    },
  );

  test.each(REASONS)("the advice for %s speaks of clocks only if the time was wrong", (reason) => {
    expect(/\bclock\b/.test(advice(reason)?.todo ?? "")).toBe(reason === "stale" || reason === "early");
  });

  test.each(REASONS)(
    "the advice for %s speaks of the Authorization header only if it holds the credential",
    (reason) => {
      const concerns = isAuthorization && (reason === "missing" || reason === "malformed");
      expect(/\bAuthorization\b/.test(advice(reason)?.todo ?? "")).toBe(concerns);
    },
  );

  test("only the advice for a mismatch of which nothing more is known is to add a new secret", () => {
    const adds = (reason: string) => advice(reason)?.todo.includes("secret = [old, new]");
    expect(REASONS.filter(adds)).toEqual(["mismatch"]);
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

test("a refusal for anything but its credential has no such advice", () => {
  const others = Object.keys(CODES).filter((each) => each !== code);
  for (const other of others)
    expect(adviceFor({ code: other, reason: "mismatch", credential: null })).toBeUndefined();
  for (const reason of ["", "toString", "too long", "mismatched"])
    expect(adviceFor({ code, reason, credential: "digest" })).toBeUndefined();
});
