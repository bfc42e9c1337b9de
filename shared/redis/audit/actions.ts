/**
 * The streams of the audit log. `acts` and `money` keep their lines for a fixed time. `reads` keeps only the newest lines, so
 * that many reads cannot evict other lines.
 */
export const AUDIT_STREAMS = ["acts", "money", "reads"] as const;
export type AuditStream = (typeof AUDIT_STREAMS)[number];

/**
 * Fields of an entry that name its subject, such as the call or job that the operator acted on. Each has the name under which
 * it is stored.
 */
export const SUBJECTS = {
  callId: "call_id",
  job: "job",
  path: "path",
  run: "run",
  session: "session",
  rejectedId: "rejected_id",
  node: "node",
  deployment: "deployment",
} as const;
type Subject = keyof typeof SUBJECTS;

/**
 * All actions in the audit log. Each has the stream of its lines, the event that is written to the process's log, and the
 * field that names its subject.
 */
export const ACTIONS = {
  replay: { stream: "acts", event: "call.replayed", about: "callId" },
  replay_delivered: { stream: "acts", event: "call.replayed_as_new", about: "callId" },
  discard: { stream: "acts", event: "call.discarded", about: "callId" },
  forget: { stream: "acts", event: "call.forgotten", about: "callId" },
  reconcile: { stream: "acts", event: "payment.reconcile_requested", about: "callId" },
  pause: { stream: "acts", event: "job.paused", about: "job" },
  resume: { stream: "acts", event: "job.resumed", about: "job" },
  run_delayed: { stream: "acts", event: "job.delayed_calls_run", about: "job" },
  run_now: { stream: "acts", event: "call.run_now", about: "callId" },
  disable: { stream: "acts", event: "endpoint.disabled", about: "path" },
  hold: { stream: "acts", event: "endpoint.held", about: "path" },
  enable: { stream: "acts", event: "endpoint.enabled", about: "path" },
  test: { stream: "acts", event: "endpoint.tested", about: "path" },
  open: { stream: "acts", event: "endpoint.opened", about: "path" },
  close: { stream: "acts", event: "endpoint.closed", about: "path" },
  begin_replay: { stream: "acts", event: "run.begun", about: "run" },
  begin_discard: { stream: "acts", event: "run.begun", about: "run" },
  begin_acknowledge: { stream: "acts", event: "run.begun", about: "run" },
  begin_audit: { stream: "acts", event: "run.begun", about: "run" },
  begin_refund_check: { stream: "acts", event: "run.begun", about: "run" },
  remove_node: { stream: "acts", event: "redis.node_removed", about: "node" },
  cancel_run: { stream: "acts", event: "run.cancelled", about: "run" },
  resume_run: { stream: "acts", event: "run.resumed", about: "run" },
  sign_in: { stream: "acts", event: "operator.signed_in", about: "session" },
  sign_out: { stream: "acts", event: "operator.signed_out", about: "session" },
  reload: { stream: "acts", event: "config.reload_asked", about: "deployment" },
  adopt: { stream: "acts", event: "redis.adopted", about: "deployment" },
  settle: { stream: "money", event: "payment.settled_by_operator", about: "callId" },
  void: { stream: "money", event: "payment.voided_by_operator", about: "callId" },
  acknowledge: { stream: "money", event: "payment.acknowledged", about: "callId" },
  drop: { stream: "money", event: "payment.dropped_by_operator", about: "callId" },
  refund: { stream: "money", event: "payment.refund_exported", about: "callId" },
  withdraw: { stream: "money", event: "payment.refund_withdrawn", about: "callId" },
  close_refund: { stream: "money", event: "payment.refund_closed", about: "callId" },
  read_body: { stream: "reads", event: "call.body_read", about: "callId" },
  read_result: { stream: "reads", event: "call.result_read", about: "callId" },
  read_rejected: { stream: "reads", event: "rejected.body_read", about: "rejectedId" },
} as const satisfies Record<string, { stream: AuditStream; event: string; about: Subject }>;

export type AuditAction = keyof typeof ACTIONS;

type ActionsIn<Stream extends AuditStream> = {
  [Action in AuditAction]: (typeof ACTIONS)[Action]["stream"] extends Stream ? Action : never;
}[AuditAction];
type ActionsAbout<About extends Subject> = {
  [Action in AuditAction]: (typeof ACTIONS)[Action]["about"] extends About ? Action : never;
}[AuditAction];

/** A line of the audit log. The type parameter limits it to one stream. */
export type AuditEntry<Stream extends AuditStream = AuditStream> = {
  [About in Subject]: { action: ActionsAbout<About> & ActionsIn<Stream> } & Readonly<Record<About, string>>;
}[Subject] & {
  /** Unix ms. */
  at: number;
  /** Name of the operator: a token's name, or `user@host` for a command. */
  by: string;
  /**
   * The filters, ids or names that selected the subject. If nothing was selected, a detail of the act, such as the address
   * of a sign-in.
   */
  selection: string;
  /** The reason, in the operator's words. */
  reason?: string | undefined;
  /** Transaction of the payment, as an operator named it, or of the refund. */
  transaction?: string | undefined;
  /** Id of the bulk operation that performed the act. */
  run?: string | undefined;
};

export function isAuditAction(text: string): text is AuditAction {
  return Object.hasOwn(ACTIONS, text);
}
