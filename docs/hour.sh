# The steps of "An hour in an account" in docs/deploy.md. None has been run in an account.
# In bash, in the checkout: `. docs/hour.sh`, then `step1` to `step8`. `status --watch` ends with Ctrl-C: when nothing
# is pending.

PATH="$PWD/.venv/bin:$PATH"
account=$(aws sts get-caller-identity --query Account --output text) || return
[ -e hour.toml ] || sed "s/123456789012/$account/" docs/hour.toml > hour.toml
mkdir -p cdk.out

deployed() {  # deployed NAME: deploy NAME.toml, and let the commands below work on it
  export TIDEGATE_CONFIG="$1.toml" BUCKET="$1-$account"
  npx cdk deploy -c "tidegate:config=$1.toml" --require-approval never --outputs-file "cdk.out/$1.json" &&
    eval "$(tidegate --env "cdk.out/$1.json")"
}

destroyed() {  # destroyed NAME
  npx cdk destroy -c "tidegate:config=$1.toml" --force
}

left() {  # left NAME: what there is of the stack
  aws resourcegroupstaggingapi get-resources --tag-filters "Key=aws:cloudformation:stack-name,Values=$1"
}

upload() {  # upload FOLDER FIRST COUNT: so many files of one row each, with ids from FIRST + 1
  mkdir -p "cdk.out/$1"
  seq "$3" | awk -v at="cdk.out/$1/" -v first="$2" \
    '{ file = at $1 ".json"; printf "{\"id\": %d, \"said\": \"%d\"}\n", first + $1, $1 > file; close(file) }'
  aws s3 cp --recursive --only-show-errors "cdk.out/$1" "s3://$BUCKET/lines/$1/"
}

again() {  # again N: deliver the notification of file N once more
  etag=$(aws s3api head-object --bucket "$BUCKET" --key "lines/few/$1.json" --query ETag --output text | tr -d '"')
  size=$(wc -c < "cdk.out/few/$1.json")
  aws sqs send-message --queue-url "$TIDEGATE_BUFFER" --message-body '{"Records": [{"eventVersion": "2.1", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": "'"$BUCKET"'"}, "object": {"key": "lines/few/'"$1"'.json", "size": '"$((size))"', "eTag": "'"$etag"'"}}}]}'
}

run() {  # run ID: a job run
  aws emr-serverless get-job-run --application-id "$TIDEGATE_APPLICATION" --job-run-id "$@"
}

running() {  # wait until a job run is under way: RUN
  until RUN=$(aws emr-serverless list-job-runs --application-id "$TIDEGATE_APPLICATION" --query 'jobRuns[0].id' \
    --output text --states SUBMITTED PENDING SCHEDULED QUEUED RUNNING) && [ "$RUN" != None ]; do sleep 2; done
}

twin() {  # print the id of a second run of RUN's job
  run "$RUN" --query 'jobRun.{applicationId: applicationId, executionRoleArn: executionRole, jobDriver: jobDriver}' \
    > cdk.out/twin.json
  aws emr-serverless start-job-run --client-token "twin-of-$RUN" --cli-input-json file://cdk.out/twin.json \
    --query jobRunId --output text
}

ended() {  # ended ID: wait until a job run has ended
  until run "$1" --query jobRun.state --output text | grep -Eq 'SUCCESS|FAILED|CANCELLED'; do sleep 5; done
}

judged() {  # when nothing is under way: nothing lost, nothing twice
  tidegate status --check
  tidegate audit --tables
  tidegate sql "select count(*) as landed, count(distinct id) as ids from lake.${TIDEGATE_DEPLOYMENT//-/_}.lines"
  aws cloudwatch describe-alarms --alarm-name-prefix hour- --state-value ALARM --query 'MetricAlarms[].AlarmName'
}

step1() {
  tidegate check hour.toml
  tidegate doctor --aws --config hour.toml
  deployed hour || return
  tidegate doctor --aws --outputs cdk.out/hour.json --job
}

step2() {
  sed 's/lake.hour/lake.hour_fails/; s/"hour/"hour-fails/' hour.toml > hour-fails.toml
  printf '\n[security]\naccess_logs = "hour-%s-is-no-bucket"\n' "$account" >> hour-fails.toml
  npx cdk deploy -c tidegate:config=hour-fails.toml --require-approval never
  aws cloudformation describe-stack-events --stack-name hour-fails --output text \
    --query 'StackEvents[].[ResourceStatus, LogicalResourceId, ResourceStatusReason]'
  destroyed hour-fails
  left hour-fails
}

step3() {
  deployed hour || return
  upload few 0 199
  echo '{"id": 1198, "said": "overwritten"}' | aws s3 cp - "s3://$BUCKET/lines/few/198.json"
  aws s3 rm "s3://$BUCKET/lines/few/199.json"
  echo '{"id": 200, "said": "bro' | aws s3 cp - "s3://$BUCKET/lines/few/200.json"
  again 1; again 2; again 2
  aws sqs send-message --queue-url "$TIDEGATE_BUFFER" --message-body 'this is no notification'
  tidegate status --watch
  again 3
  sleep 60
  judged
}

step4() {
  sed 's/lake.hour/lake.hour_key/; s/"hour/"hour-key/; s/"s3"/"eventbridge"/' hour.toml > hour-key.toml
  printf '\n[security]\nencryption = "customer"\n' >> hour-key.toml
  deployed hour-key || return
  tidegate doctor --aws --outputs cdk.out/hour-key.json --job
  upload twenty 0 20
  tidegate status --watch
  judged
  aws s3api head-object --bucket "$BUCKET" --key lines/twenty/1.json --query '[ServerSideEncryption, SSEKMSKeyId]'
  destroyed hour-key
}

step5() {
  deployed hour || return
  for n in 1 2 3 4; do upload "burst$n" "${n}0000" 5000 & done; wait
  tidegate status --watch
  judged
  tidegate files --batches
  for id in $(aws emr-serverless list-job-runs --application-id "$TIDEGATE_APPLICATION" --states SUCCESS \
    --query 'jobRuns[].id' --output text); do
    run "$id" --query jobRun.billedResourceUtilization
  done
}

step6() {
  arn=$(aws s3tables create-table-bucket --name hour-tables --query arn --output text) || return
  sed 's/lake.hour/lake.hour_tables/; s/"hour/"hour-tables/' hour.toml > hour-tables.toml
  printf '\n[catalog]\nwarehouse = "%s"\n' "$arn" >> hour-tables.toml
  tidegate doctor --aws --config hour-tables.toml
  deployed hour-tables || return
  tidegate doctor --aws --outputs cdk.out/hour-tables.json --job
  upload twenty 0 20
  tidegate status --watch
  judged
  destroyed hour-tables
  aws s3tables delete-table --table-bucket-arn "$arn" --namespace hour_tables --name lines
  aws s3tables delete-namespace --table-bucket-arn "$arn" --namespace hour_tables
  aws s3tables delete-table-bucket --table-bucket-arn "$arn"
}

step7() {
  deployed hour || return
  upload twins 50000 200
  running
  second=$(twin)
  tidegate status --watch
  ended "$second"
  judged
  upload late 55000 200
  running
  tidegate status --watch
  second=$(twin)                                                 # its batch is committed
  ended "$second"
  judged
}

step8() {
  deployed hour || return
  upload change 60000 200
  running
  cp hour.toml hour-before.toml
  sed -i.bak 's/^schema = .*/&\nexpect_every = "1d"/' hour.toml
  deployed hour                                                  # the job goes on
  printf '\n[limits]\nvcpu = 12\n' >> hour.toml
  deployed hour                                                  # refused: the application is started
  cp hour-before.toml hour.toml
  tidegate status --watch
  judged
  upload destroy 70000 200
  running
  destroyed hour                                                 # fails: a job runs
  aws emr-serverless cancel-job-run --application-id "$TIDEGATE_APPLICATION" --job-run-id "$RUN"
  destroyed hour
  for name in hour hour_key; do aws glue delete-database --name "$name"; done
  left hour
}
