import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { DocumentsOfEndpoints } from "../../../../services/webhooks-gateway/fetched-documents.ts";
import { createHttpSignatureCheck } from "../../../../services/webhooks-gateway/http-signature-check.ts";
import { sha256Hex } from "../../../../shared/platform/crypto/compare.ts";
import { contentDigest } from "../../../../shared/platform/crypto/message-signature.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import type { HttpAlgorithm } from "../../../../shared/webhook-auth/keys/algorithms.ts";
import { RequestValues } from "../../../../shared/webhook-auth/template.ts";
import { recordingLog } from "../../../support/recording-log.ts";

/*
 * Signed requests of RFC 9421, appendix B, and its keys as JWKs (B.1).
 */

const KEYS: Readonly<Record<HttpAlgorithm, object>> = {
  "rsa-pss-sha512": {
    kty: "RSA",
    kid: "test-key-rsa-pss",
    e: "AQAB",
    n: "r4tmm3r20Wd_PbqvP1s2-QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct-Lh1GH45x28Rw3Ry53mm-oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgchwuYLPL-Wokqltd11nqqzi-bJ9cvSKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4aOT9v6d-nb4bnNkQVklLQ3fVAvJm-xdDOp9LCNCN48V2pnDOkFV6-U9nV5oyc6XI2w",
  },
  "ecdsa-p256-sha256": {
    kty: "EC",
    crv: "P-256",
    kid: "test-key-ecc-p256",
    x: "qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA",
    y: "Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0",
  },
  ed25519: {
    kty: "OKP",
    crv: "Ed25519",
    kid: "test-key-ed25519",
    x: "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
  },
  "hmac-sha256": {
    kty: "oct",
    kid: "test-shared-secret",
    k: "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ",
  },
};

/** The appendix's RSA key in PEM. A PEM key has no id. */
const RSA_PEM = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2
+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+
oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq
gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W
Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4
aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI
2wIDAQAB
-----END PUBLIC KEY-----`;

type Message = { method: string; authority: string; target: string; headers: string[][]; body: string };

const DATE = ["Date", "Tue, 20 Apr 2021 02:07:55 GMT"];
const TYPE = ["Content-Type", "application/json"];
const LENGTH = ["Content-Length", "18"];

const request: Message = {
  method: "POST",
  authority: "example.com",
  target: "/foo?param=Value&Pet=dog",
  headers: [
    DATE,
    TYPE,
    [
      "Content-Digest",
      "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:",
    ],
    LENGTH,
  ],
  body: '{"hello": "world"}',
};

/**
 * The appendix sends this message and the next one without a digest. Every endpoint requires one, so it is added
 * unsigned.
 */
const proxied: Message = {
  ...request,
  authority: "service.internal.example",
  headers: [
    ...request.headers,
    [
      "Client-Cert",
      ":MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAxMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAIwADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMCBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMjeSkC3dFCOOB8TAiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:",
    ],
  ],
};

const transformed: Message = {
  method: "GET",
  authority: "example.org",
  target: "/demo?name1=Value1&Name2=value2",
  headers: [
    ["Accept", "application/json"],
    ["Accept", "*/*"],
    ["Content-Digest", contentDigest(sha256Hex(Buffer.alloc(0)))],
  ],
  body: "",
};

const VECTORS: [
  what: string,
  algorithm: HttpAlgorithm,
  message: Message,
  input: string,
  signature: string,
][] = [
  [
    "B.2.1, a minimal signature",
    "rsa-pss-sha512",
    request,
    'sig-b21=();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"',
    "sig-b21=:d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==:",
  ],
  [
    "B.2.2, selected components",
    "rsa-pss-sha512",
    request,
    'sig-b22=("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example"',
    "sig-b22=:LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==:",
  ],
  [
    "B.2.3, full coverage",
    "rsa-pss-sha512",
    request,
    'sig-b23=("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss"',
    "sig-b23=:bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==:",
  ],
  [
    "B.2.5, a shared secret",
    "hmac-sha256",
    request,
    'sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"',
    "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:",
  ],
  [
    "B.2.6, Ed25519",
    "ed25519",
    request,
    'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"',
    "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
  ],
  [
    "B.3, a proxy before TLS",
    "ecdsa-p256-sha256",
    proxied,
    'ttrp=("@path" "@query" "@method" "@authority" "client-cert");created=1618884473;keyid="test-key-ecc-p256"',
    "ttrp=:xVMHVpawaAC/0SbHrKRs9i8I3eOs5RtTMGCWXm/9nvZzoHsIg6Mce9315T6xoklyy0yzhD9ah4JHRwMLOgmizw==:",
  ],
  [
    "B.4, a header of two lines",
    "ed25519",
    transformed,
    'transform=("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519"',
    "transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:",
  ],
];

const CREATED_MS = 1_618_884_473_000;

async function checked(
  algorithm: HttpAlgorithm,
  message: Message,
  [input, signature]: string[],
  key?: string,
) {
  const { authority, target, headers, method, body } = message;
  const getText = () => Promise.reject(new Error("nothing is fetched"));
  const clock = () => CREATED_MS;
  const check = createHttpSignatureCheck(
    { signature: { algorithm, components: [], past_secs: 300, future_secs: 60 } },
    {
      path: "/",
      encoded_bodies: "refuse",
      public_url: `https://${authority}${target.split("?")[0]}`,
      secret: [new Secret(key ?? JSON.stringify(KEYS[algorithm]))],
    },
    { clock, documents: new DocumentsOfEndpoints({ getText, clock, log: recordingLog() }) },
  );
  const signed = ["Signature-Input", input, "Signature", signature];
  const req = { method, url: target, rawHeaders: [...headers.flat(), ...signed] } as IncomingMessage;
  (await check(req, "127.0.0.1"))?.check(new RequestValues(req, Buffer.from(body)));
}

const MISMATCH = { code: "webhook.credential_rejected", message: "mismatch" };

test.each(VECTORS)("the published signature %s is valid", async (_what, algorithm, message, ...signed) => {
  await checked(algorithm, message, signed);
});

test.each(VECTORS)(
  "the published signature %s is not valid with a changed parameter",
  async (_what, algorithm, message, input = "", signature) => {
    const later = input.replace("created=1618884473", "created=1618884474");
    await expect(checked(algorithm, message, [later, signature])).rejects.toMatchObject(MISMATCH);
  },
);

test("the key in PEM verifies the published signature with any keyid", async () => {
  const [[, algorithm, message, ...signed] = []] = VECTORS;
  await checked(algorithm!, message!, signed as string[], RSA_PEM);
});

const transform = VECTORS.at(-1)!.slice(3) as string[];

test.each<[string, Partial<Message>, boolean]>([
  [
    "more headers and a longer query, which it does not cover",
    { target: "/demo?name1=Value1&Name2=value2&param=added" },
    true,
  ],
  [
    "the two values on one line",
    { headers: [["Accept", "application/json, */*"], transformed.headers[2]!] },
    true,
  ],
  [
    "the two values in another order",
    { headers: [["Accept", "*/*"], ["Accept", "application/json"], transformed.headers[2]!] },
    false,
  ],
  ["another method", { method: "POST" }, false],
  ["another authority", { authority: "example.com" }, false],
])(
  "the published signature over two lines of a header, with %s, is valid: %s",
  async (_what, changed, holds) => {
    const outcome = checked("ed25519", { ...transformed, ...changed }, transform);
    await (holds ? outcome : expect(outcome).rejects.toMatchObject(MISMATCH));
  },
);
