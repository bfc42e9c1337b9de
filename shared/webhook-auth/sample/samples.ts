/**
 * A small example of a sender's deliveries, for testing an endpoint. Its id, time and signature are added when it is
 * sent.
 */
export type Sample = {
  /** Event type, if the sender puts it into a header. */
  readonly event?: string;
  /** Additional headers. If a header may have several names, the name given here is used. */
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON, or the text of a form. */
  readonly body: unknown;
};

/** Sample for an endpoint without a preset. */
export const PLAIN_SAMPLE: Sample = { body: { message: "a sample from postern send" } };

const REPOSITORY = { id: 1, name: "hello-world", full_name: "octo/hello-world" };
const AT = "2026-01-31T18:00:00.000Z";
const HUBSPOT_EVENTS = [
  {
    eventId: 100,
    subscriptionId: 1_923_602,
    occurredAt: 1_769_882_400_000,
    subscriptionType: "contact.creation",
    attemptNumber: 0,
  },
];

/** Samples by preset. */
export const SAMPLES: Readonly<Record<string, Sample>> = {
  github: {
    event: "push",
    headers: { "User-Agent": "GitHub-Hookshot/044aadd", "X-GitHub-Hook-ID": "292430182" },
    body: { ref: "refs/heads/main", before: "0".repeat(40), repository: REPOSITORY, commits: [] },
  },
  "google-pubsub": {
    body: {
      message: { messageId: "", publishTime: AT, attributes: { key: "value" }, data: "SGVsbG8=" },
      subscription: "projects/hello/subscriptions/postern",
    },
  },
  gitlab: {
    event: "Push Hook",
    headers: { "X-Gitlab-Instance": "https://gitlab.example.com" },
    body: { object_kind: "push", ref: "refs/heads/main", project: { id: 1, name: "hello" }, commits: [] },
  },
  gitea: {
    event: "push",
    headers: { "X-Gitea-Event-Type": "push" },
    body: { ref: "refs/heads/main", before: "0".repeat(40), repository: REPOSITORY, commits: [] },
  },
  bitbucket: {
    event: "repo:push",
    body: { push: { changes: [] }, repository: { name: "hello" }, actor: { display_name: "Ann" } },
  },
  jira: {
    body: { timestamp: 1_769_882_400_000, webhookEvent: "jira:issue_updated", issue: { key: "AB-1" } },
  },
  linear: {
    headers: { "Linear-Event": "Issue" },
    body: { action: "create", type: "Issue", data: { id: "i-1", title: "A title" }, webhookId: "w-1" },
  },
  circleci: { body: { id: "", type: "workflow-completed", workflow: { name: "build", status: "success" } } },
  buildkite: {
    headers: { "X-Buildkite-Event": "build.finished" },
    body: { event: "build.finished", build: { id: "b-1", state: "passed" } },
  },
  vercel: { body: { id: "", type: "deployment.created", payload: { deployment: { id: "dpl_1" } } } },
  npm: { body: { event: "package:publish", name: "left-pad", version: "1.3.0" } },
  trello: { body: { action: { id: "", type: "updateCard", data: { card: { name: "A card" } } }, model: {} } },

  "standard-webhooks": { body: { type: "user.created", timestamp: AT, data: { id: "u_1" } } },
  svix: { body: { type: "invoice.paid", timestamp: AT, data: { id: "in_1" } } },
  clerk: { body: { type: "user.created", object: "event", data: { id: "user_1" } } },
  resend: { body: { type: "email.delivered", created_at: AT, data: { email_id: "e_1" } } },
  openai: { body: { id: "evt_1", object: "event", type: "response.completed", data: { id: "resp_1" } } },
  replicate: { body: { id: "ufawqhfynn", status: "succeeded", input: { text: "Ann" }, output: "hello" } },
  polar: { body: { type: "order.paid", timestamp: AT, data: { id: "o_1" } } },

  "azure-event-grid": {
    headers: { "aeg-event-type": "Notification", "aeg-subscription-name": "sub-1" },
    body: [
      { id: "", topic: "/topics/t-1", eventType: "Microsoft.Storage.BlobCreated", eventTime: AT, data: {} },
    ],
  },
  cloudevents: {
    event: "com.example.created",
    headers: { "ce-specversion": "1.0", "ce-source": "/sample", "ce-time": AT },
    body: { name: "a sample" },
  },
  "microsoft-graph": {
    body: {
      value: [{ subscriptionId: "s-1", clientState: "", changeType: "created", resource: "me/messages/m-1" }],
    },
  },

  alchemy: { body: { webhookId: "wh_1", id: "", type: "ADDRESS_ACTIVITY", event: { activity: [] } } },
  quicknode: {
    headers: { "Stream-Network": "ethereum-mainnet", "Stream-Dataset": "block" },
    body: [{ number: "0x1", hash: `0x${"ab".repeat(32)}` }],
  },
  helius: { body: [{ type: "TRANSFER", source: "SYSTEM_PROGRAM", signature: "5nVDY" }] },
  tenderly: { body: { id: "", event_type: "ALERT", transaction: { network: "1" } } },
  moralis: {
    body: {
      confirmed: true,
      chainId: "0x1",
      streamId: "s-1",
      tag: "vault",
      retries: 0,
      block: { number: "1", hash: "0xab" },
      logs: [],
      txs: [],
    },
  },
  "coinbase-cdp": {
    headers: { "X-Event-Type": "wallet.activity.detected" },
    body: { eventType: "wallet.activity.detected", network: "base-mainnet", data: {} },
  },

  stripe: {
    body: { id: "", object: "event", type: "payment_intent.succeeded", data: { object: { id: "pi_1" } } },
  },
  shopify: {
    event: "orders/create",
    headers: {
      "X-Shopify-Topic": "",
      "X-Shopify-Shop-Domain": "example.myshopify.com",
      "X-Shopify-Event-Id": "",
      "X-Shopify-Hmac-Sha256": "",
    },
    body: { id: 820_982_911_946_154, email: "jon@example.com", total_price: "10.00" },
  },
  paddle: { body: { event_id: "", event_type: "transaction.completed", data: { id: "txn_1" } } },
  razorpay: { body: { entity: "event", event: "payment.captured", contains: ["payment"], payload: {} } },
  square: { body: { type: "payment.created", event_id: "", merchant_id: "m-1", data: { type: "payment" } } },
  "coinbase-commerce": {
    body: { id: 1, attempt_number: 1, event: { id: "", type: "charge:confirmed", data: {} } },
  },
  woocommerce: {
    event: "order.created",
    headers: { "X-WC-Webhook-Resource": "order", "X-WC-Webhook-Event": "created" },
    body: { id: 727, status: "processing", total: "10.00" },
  },
  "lemon-squeezy": {
    headers: { "X-Event-Name": "order_created" },
    body: { meta: { event_name: "order_created" }, data: { type: "orders", id: "1" } },
  },
  recurly: {
    body: { id: "rjxwmwedwqug", object_type: "account", event_type: "created", account_code: "a-1" },
  },
  "adyen-platforms": {
    body: { type: "balancePlatform.accountHolder.created", environment: "test", data: { id: "AH1" } },
  },
  "checkout-com": { body: { id: "", type: "payment_captured", data: { id: "pay_1" } } },
  gocardless: {
    body: {
      events: [{ id: "EV1", resource_type: "payments", action: "confirmed" }],
      meta: { webhook_id: "" },
    },
  },
  paystack: { body: { event: "charge.success", data: { id: 302_961, reference: "r-1" } } },
  "authorize-net": {
    body: { notificationId: "", eventType: "net.authorize.payment.authcapture.created", payload: {} },
  },
  quickbooks: { body: { eventNotifications: [{ realmId: "1185883450", dataChangeEvent: {} }] } },
  xero: { body: { events: [], firstEventSequence: 0, lastEventSequence: 0, entropy: "S0m3r4Nd0mt3xt" } },

  slack: {
    body: { type: "event_callback", event_id: "", event: { type: "app_mention", text: "hello" } },
  },
  "discord-interactions": { body: { id: "", application_id: "1", type: 2, data: { name: "deploy" } } },
  "discord-events": {
    body: { version: 1, application_id: "1", type: 1, event: { type: "APPLICATION_AUTHORIZED" } },
  },
  twilio: {
    body: "AccountSid=AC0f1e2d3c4b5a69788796a5b4c3d2e1f0&MessageSid=SM1f0e8ae6ade43cb3&SmsStatus=received&From=%2B14155551212&Body=hello",
  },
  sendgrid: { body: [{ email: "ann@example.com", event: "delivered", sg_event_id: "" }] },
  zoom: { body: { event: "meeting.started", event_ts: 1_769_882_400_000, payload: { account_id: "a" } } },
  meta: { body: { object: "page", entry: [{ id: "1", changes: [{ field: "feed", value: "hello" }] }] } },
  x: { body: { for_user_id: "2244994945", tweet_create_events: [{ id: 1, text: "hello" }] } },
  twitch: {
    headers: {
      "Twitch-Eventsub-Message-Retry": "0",
      "Twitch-Eventsub-Message-Type": "notification",
      "Twitch-Eventsub-Subscription-Type": "stream.online",
      "Twitch-Eventsub-Subscription-Version": "1",
    },
    body: { subscription: { id: "s-1", type: "stream.online" }, event: { id: "9001" } },
  },
  telegram: { body: { update_id: 10_000, message: { message_id: 1, text: "/start" } } },
  mailgun: {
    body: {
      signature: { timestamp: "", token: "", signature: "" },
      "event-data": { event: "delivered", id: "e-1" },
    },
  },
  postmark: { body: { RecordType: "Delivery", MessageID: "m-1", Recipient: "ann@example.com" } },
  intercom: { body: { type: "notification_event", id: "", topic: "conversation.user.created", data: {} } },
  zendesk: { body: { id: "z-1", type: "zen:event-type:ticket.created", detail: { id: "1" } } },
  "teams-outgoing": { body: { type: "message", id: "", text: "<at>Postern</at> hello" } },

  sentry: { event: "issue", body: { action: "created", data: { issue: { id: "1", title: "An error" } } } },
  pagerduty: { body: { event: { id: "", event_type: "incident.triggered", data: { title: "Disk" } } } },
  grafana: { body: { status: "firing", groupKey: '{}:{alertname="Disk"}', alerts: [] } },
  alertmanager: { body: { version: "4", groupKey: '{}:{alertname="Disk"}', status: "firing", alerts: [] } },
  datadog: { body: { id: "", event_type: "query_alert_monitor", title: "Disk", org: { id: "1" } } },
  tradingview: { body: { ticker: "BTCUSD", action: "buy", price: "60000" } },
  launchdarkly: { body: { _id: "", kind: "flag", name: "a-flag" } },
  okta: {
    body: {
      eventType: "com.okta.event_hook",
      eventId: "",
      data: { events: [{ eventType: "user.lifecycle.create" }] },
    },
  },

  dropbox: { body: { list_folder: { accounts: ["dbid:AAH4f99T0taONIb-OurWxbNQ6ywGRopQngc"] } } },
  box: { body: { type: "webhook_event", id: "", trigger: "FILE.UPLOADED", source: { id: "1" } } },
  asana: { body: { events: [{ action: "changed", resource: { gid: "1", resource_type: "task" } }] } },
  airtable: { body: { base: { id: "app1" }, webhook: { id: "ach1" }, timestamp: AT } },
  typeform: { body: { event_id: "", event_type: "form_response", form_response: { form_id: "f" } } },
  tally: { body: { eventId: "", eventType: "FORM_RESPONSE", data: { formId: "f" } } },
  docusign: { body: { event: "envelope-completed", retryCount: 0, data: { envelopeId: "e-1" } } },
  nylas: { body: { specversion: "1.0", type: "message.created", id: "", data: { object: { id: "m" } } } },
  workos: { body: { id: "", event: "user.created", data: { object: "user", id: "user_1" } } },
  calendly: { body: { event: "invitee.created", payload: { email: "ann@example.com" } } },
  "cal-com": { body: { triggerEvent: "BOOKING_CREATED", payload: { uid: "u-1" } } },
  hubspot: { body: HUBSPOT_EVENTS },
  "hubspot-v1": { body: HUBSPOT_EVENTS },
  "hubspot-v2": { body: { objectId: 1, objectType: "CONTACT", properties: { firstname: "Ann" } } },
};
