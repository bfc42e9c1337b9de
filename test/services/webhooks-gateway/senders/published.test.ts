import { describe, expect, it } from "vitest";
import type { Occasion, Signed } from "../../../fixtures/senders/sender.ts";
import { senderNamed } from "../../../fixtures/senders/senders.ts";
import { hook0 } from "../../../fixtures/senders/signature-list.ts";
import {
  hubspotV1,
  hubspotV2,
  squareSignature,
  twilioForm,
  twilioJson,
} from "../../../fixtures/senders/url-signed.ts";

type Published = {
  source: string;
  sender: string;
  key: string;
  body: string;
  /** Time of the delivery, in Unix seconds. */
  at?: number;
  id?: string;
  header: [name: string, value: string];
};

const SLACK_COMMAND =
  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
  "&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
  "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
  "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

const OPENAI_EVENT =
  '{"id": "evt_685c059ae3a481909bdc86819b066fb6", "object": "event", "created_at": 1750861210, ' +
  '"type": "response.completed", "data": {"id": "resp_123"}}';

const PADDLE_EVENT =
  '{"data":{"id":"pri_01hsdn96k2hxjzsq5yerecdj9j","name":null,"status":"active","quantity":{"maximum":999999,' +
  '"minimum":1},"tax_mode":"account_setting","product_id":"pro_01hsdn8qp7yydry3x1yeg6a9rv","unit_price":{"amount":' +
  '"1000","currency_code":"USD"},"custom_data":null,"description":"testing","import_meta":null,"trial_period":null,' +
  '"billing_cycle":{"interval":"month","frequency":1},"unit_price_overrides":[]},"event_id":' +
  '"evt_01hsdn97563968dy0szkmgjwh3","event_type":"price.created","occurred_at":"2024-03-20T10:07:35.590857Z",' +
  '"notification_id":"ntf_01hsdn977e920kbgzt6r6c9rqc"}';

const PAGERDUTY_EVENT =
  '{"event":{"id":"01BWDWL3NYY7LUFPZCC28QUCMK","event_type":"incident.priority_updated","resource_type"' +
  ':"incident","occurred_at":"2021-04-26T17:36:27.458Z","agent":{"html_url":"https://acme.pagerduty.com' +
  '/users/PLH1HKV","id":"PLH1HKV","self":"https://api.pagerduty.com/users/PLH1HKV","summary":"Tenex Eng' +
  'ineer","type":"user_reference"},"client":null,"data":{"id":"PGR0VU2","type":"incident","self":"https' +
  '://api.pagerduty.com/incidents/PGR0VU2","html_url":"https://acme.pagerduty.com/incidents/PGR0VU2","n' +
  'umber":2,"status":"triggered","title":"A little bump in the road","service":{"html_url":"https://acm' +
  'e.pagerduty.com/services/PF9KMXH","id":"PF9KMXH","self":"https://api.pagerduty.com/services/PF9KMXH"' +
  ',"summary":"API Service","type":"service_reference"},"assignees":[{"html_url":"https://acme.pagerdut' +
  'y.com/users/PTUXL6G","id":"PTUXL6G","self":"https://api.pagerduty.com/users/PTUXL6G","summary":"User' +
  ' 123","type":"user_reference"}],"escalation_policy":{"html_url":"https://acme.pagerduty.com/escalati' +
  'on_policies/PUS0KTE","id":"PUS0KTE","self":"https://api.pagerduty.com/escalation_policies/PUS0KTE","' +
  'summary":"Default","type":"escalation_policy_reference"},"teams":[{"html_url":"https://acme.pagerdut' +
  'y.com/teams/PFCVPS0","id":"PFCVPS0","self":"https://api.pagerduty.com/teams/PFCVPS0","summary":"Engi' +
  'neering","type":"team_reference"}],"priority":{"html_url":"https://acme.pagerduty.com/account/incide' +
  'nt_priorities","id":"PSO75BM","self":"https://api.pagerduty.com/priorities/PSO75BM","summary":"P1","' +
  'type":"priority_reference"},"urgency":"high","conference_bridge":{"conference_number":1000,"conferen' +
  'ce_url":"https://example.com"},"resolve_reason":null}}}';

const AUTHORIZE_NET_KEY =
  "2679A5D5785C9B26CF921E1754765CDDB265C9C88400786923E5343B315954FAFB4B7BF608818F6A21766741E8637DC206F286C725908C777ED4127D8562163D";

const AUTHORIZE_NET_EVENT =
  '{"notificationId":"f813b98f-3552-4eeb-ba40-acb4704eeba3","eventType":"net.authorize.payment.authcapture.created",' +
  '"eventDate":"2017-03-08T17:35:37.155999Z","webhookId":"63d6fea2-aa13-4b1d-a204-f5fbc15942b7","payload":' +
  '{"responseCode":1,"authCode":"8VTPDC","avsResponse":"Y","authAmount":10.00,"entityName":"transaction","id":"60019392075"}}';

const RECURLY_EVENT =
  '{"id":"rjxwmwedwqug","object_type":"account","site_id":"qc326l1hl8k9","event_type":"created",' +
  '"event_time":"2022-09-13T21:18:40Z","account_code":"adfas23zzz14123"}';

const NOTION_TOKEN = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl";

const published: Published[] = [
  {
    source: "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
    sender: "github",
    key: "It's a Secret to Everybody",
    body: "Hello, World!",
    header: [
      "X-Hub-Signature-256",
      "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    ],
  },
  {
    // A delivery of 2017, published by a user who could not verify it with the decoded key.
    source:
      "https://community.developer.cybersource.com/t5/Integration-and-Testing/WebHooks-Problem/td-p/57162",
    sender: "authorize-net",
    key: AUTHORIZE_NET_KEY,
    body: AUTHORIZE_NET_EVENT,
    header: [
      "X-ANET-Signature",
      "sha512=9607C69D2734514554CE13D923D19939563F2FD6567D239F49F0DF0D08865632A0FB98061B4620CC52C47BB8BF6E2B69A15A67E4C98E81D7D65111076C515C6A",
    ],
  },
  {
    source:
      "https://github.com/recurly/recurly-client-ruby/blob/v3-v2021-02-25/spec/recurly/webhooks_spec.rb",
    sender: "recurly",
    key: "354fab5bd35f5a0d50845ee7e30165244468b13c2c343f104e4e730a59326d9d",
    body: RECURLY_EVENT,
    at: 1663103925.004,
    header: [
      "recurly-signature",
      "1663103925004,ad24699f3beaa24c9af2cc7ada3ce4c835da0090194241b9d3add83d27f14bc3",
    ],
  },
  {
    source: "https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
    sender: "bitbucket",
    key: "It's a Secret to Everybody",
    body: "Hello World!",
    header: ["X-Hub-Signature", "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"],
  },
  {
    source: "https://docs.slack.dev/authentication/verifying-requests-from-slack",
    sender: "slack",
    key: "8f742231b10e8888abcd99yyyzzz85a5",
    body: SLACK_COMMAND,
    at: 1531420618,
    header: ["X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"],
  },
  {
    source: "https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/python/README.md",
    sender: "standard-webhooks",
    key: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    body: '{"test": 2432232314}',
    at: 1614265330,
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
    header: ["webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="],
  },
  {
    source: "https://docs.svix.com/receiving/verifying-payloads/how-manual",
    sender: "svix",
    key: "whsec_plJ3nmyCDGBKInavdOK15jsl",
    body: '{"event_type":"ping","data":{"success":true}}',
    at: 1731705121,
    id: "msg_loFOjxBNrRLzqYUf",
    header: ["svix-signature", "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="],
  },
  {
    source: "https://github.com/openai/openai-python/blob/main/tests/lib/test_webhooks.py",
    sender: "openai",
    key: "whsec_RdvaYFYUXuIFuEbvZHwMfYFhUf7aMYjYcmM24+Aj40c=",
    body: OPENAI_EVENT,
    at: 1750861210,
    id: "wh_685c059ae39c8190af8c71ed1022a24d",
    header: ["webhook-signature", "v1,gUAg4R2hWouRZqRQG4uJypNS8YK885G838+EHb4nKBY="],
  },
  {
    source: "https://github.com/PaddleHQ/paddle-go-sdk/blob/main/example_webhook_verifier_test.go",
    sender: "paddle",
    key: "pdl_ntfset_01hsdn8d43dt7mezr1ef2jtbaw_hKkRiCGyyRhbFwIUuqiTBgI7gnWoV0Gr",
    body: PADDLE_EVENT,
    at: 1710929255,
    header: [
      "Paddle-Signature",
      "ts=1710929255;h1=6c05ef8fa83c44d751be6d259ec955ce5638e2c54095bf128e408e2fce1589c8",
    ],
  },
  {
    source: "https://github.com/PagerDuty/go-pagerduty/blob/main/webhookv3/webhookv3_test.go",
    sender: "pagerduty",
    key: "lDQHScfUeXUKaQRNF+8XIiDKZ7XX3itBAYzwU0TARw8lJqRnkKl2iB1anSb0Z+IK",
    body: PAGERDUTY_EVENT,
    header: ["X-PagerDuty-Signature", "v1=0c0b9495b893a39e70d1fea2fe11fbe0a825f88b9f67846f6cc07dd2bc5476cd"],
  },
  {
    source: "https://github.com/razorpay/razorpay-node/issues/29",
    sender: "razorpay",
    key: "123456",
    body: "{a:1, b:2}",
    header: ["X-Razorpay-Signature", "ee0a3edebeb4be41bafa3bc0a39069d7845a5c37760b863405049de80b5fe92d"],
  },
  {
    source: "https://developers.notion.com/reference/webhooks",
    sender: "notion",
    key: NOTION_TOKEN,
    body: JSON.stringify({ verification_token: NOTION_TOKEN }),
    header: ["X-Notion-Signature", "sha256=461e8cbcba8a75c3edd866f0e71280f5a85cbf21eff040ebd10fe266df38a735"],
  },
  ...(
    [
      ["secret", "hello world", "734cc62f32841568f45715aeb9f4d7891324e6d948e4c6c60c0621cdac48623a"],
      ["another-secret", "lalala", "daa220016c8f29a8b214fbfc3671aeec2145cfb1e6790184ffb38b6d0425fa00"],
      [
        "hunter123",
        "an-important-request-payload",
        "9be2242094a9a8c00c64306f382a7f9d691de910b4a266f67bd314ef18ac49fa",
      ],
    ] as const
  ).map(
    ([key, body, value]): Published => ({
      source: "https://circleci.com/docs/guides/integration/outbound-webhooks/",
      sender: "circleci",
      key,
      body,
      header: ["circleci-signature", `v1=${value}`],
    }),
  ),
];

const occasion = (key: string, { at = 0, id = "" }: { at?: number; id?: string } = {}): Occasion => ({
  keys: [{ configured: key, signing: key }],
  at: new Date(at * 1000),
  id,
});

const header = (request: Signed, wanted: string) => request.headers.find(([name]) => name === wanted)?.[1];

it.each(published)(
  "$sender signs as $source shows",
  ({ sender, key, body, header: [name, value], ...when }) => {
    const signed = senderNamed(sender).sign(Buffer.from(body), occasion(key, when));

    expect(header(signed, name)).toBe(value);
  },
);

/** The tests of Hook0's own sender show its signatures over these headers. */
describe("Hook0, which signs for Coinbase,", () => {
  const on = occasion("secret", { at: 1636936200 });
  const body = Buffer.from("hello !");
  const source = "https://gitlab.com/hook0/hook0/-/blob/master/output-worker/src/work.rs";

  it(`signs only the body in v0, as ${source} shows`, () => {
    const v0 = "1b3d69df55f1e52f05224ba94a5162abeb17ef52cd7f4948c390f810d6a87e98";
    expect(hook0([], body, on)).toContain(`t=1636936200,v0=${v0},`);
  });

  it(`signs named headers in alphabetical order in v1 as ${source} shows`, () => {
    const headers: [string, string][] = [
      ["X-EVENT-TYPE", "service.resource.verb"],
      ["X-Event-Id", "1a01cb48-5142-4d9b-8f90-d20cca61f0ee"],
    ];
    const v1 = "bc521546ba5de381b12f135782d2008b028c3065c191760b12b76850a8fc8f51";
    expect(hook0(headers, body, on)).toContain(`,h=x-event-id x-event-type,v1=${v1}`);
  });
});

describe("Twilio", () => {
  const [key] = occasion("12345").keys;
  const url = "https://mycompany.com/myapp.php?foo=1&bar=2";
  const source =
    "https://github.com/twilio/twilio-php/blob/main/tests/Twilio/Unit/Security/RequestValidatorTest.php";

  it(`signs a form as ${source} shows`, () => {
    const form = new URLSearchParams({
      CallSid: "CA1234567890ABCDE",
      Caller: "+14158675309",
      Digits: "1234",
      From: "+14158675309",
      To: "+18005551212",
    });
    expect(twilioForm(key, url, Buffer.from(form.toString()))).toBe("RSOYDt4T1cUTdK1PDd93/VVr8B8=");
  });

  it(`signs a repeated name once for each of its values, sorted`, () => {
    const form = "Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234";
    expect(twilioForm(key, url, Buffer.from(form))).toBe("IK+Dwps556ElfBT0I3Rgjkr1wJU=");
  });

  it(`signs JSON as ${source} shows`, () => {
    const body = Buffer.from('{"property": "value", "boolean": true}');
    expect(twilioJson(key, url, body)).toEqual({
      url: `${url}&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620`,
      signature: "a9nBmqA0ju/hNViExpshrM61xv4=",
    });
  });
});

describe("HubSpot's older signatures", () => {
  const [key] = occasion("yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy").keys;

  it("are made in version 1 as https://legacydocs.hubspot.com/docs/faq/v1-request-validation shows", () => {
    const body =
      '[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,"subscriptionType":' +
      '"contact.creation","attemptNumber":0,"objectId":123,"changeSource":"CRM","changeFlag":"NEW","appId":54321}]';
    const signature = "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de";
    expect(hubspotV1(key, Buffer.from(body))).toBe(signature);
  });

  it("are made in version 2 as https://legacydocs.hubspot.com/docs/faq/v2-request-validation shows", () => {
    const body = Buffer.from('{"example_field":"example_value"}');
    const signature = "9569219f8ba981ffa6f6f16aa0f48637d35d728c7e4d93d0d52efaa512af7900";
    expect(hubspotV2(key, "https://www.example.com/webhook_uri", body)).toBe(signature);
  });
});

it.each([
  ['{"data":{"type":"webhooks","id":"fake_id"}}', "W3FlCNk5IA3ZQ2LHTWoajvzfaDu/OwY2tNHIHC3IUOA="],
  ['{"data":{"type":"webhooks","id":">id<"}}', "Cxt7+aTi4rKgcA0bC4g9EHdVtLSDWdqccmL5MvihU4U="],
])("Square signs %s as square-legacy's own test shows", (body, signature) => {
  const [key] = occasion("signature-key").keys;
  expect(squareSignature(key, "https://webhook.site/webhooks", Buffer.from(body))).toBe(signature);
});
