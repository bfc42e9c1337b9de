import { type Job, pauseJob, resumeJob } from "../../api/jobs.ts";
import { Confirm } from "../../ui/confirm.tsx";

export function PauseDialog({ job: { job, paused }, onClose }: { job: Job; onClose: () => void }) {
  const isPaused = paused !== undefined;
  const act = (reason: string) => (isPaused ? resumeJob(job, reason) : pauseJob(job, reason));
  return (
    <Confirm
      title={`${isPaused ? "Resume" : "Pause"} job ${job}?`}
      verb={isPaused ? "Resume job" : "Pause job"}
      example={isPaused ? "The runner is back" : "The runner is down for maintenance until 14:00"}
      onClose={onClose}
      act={act}
    >
      <p>
        {isPaused
          ? "Producers send its waiting calls to the runner, oldest first. No call that was injected runs again."
          : "New calls are accepted and kept. None is sent to the runner until an operator resumes the job."}
      </p>
    </Confirm>
  );
}
