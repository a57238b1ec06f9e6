"""A client of an S3 server for the tests: boto3, Amazon's own.

usage: client.py ENDPOINT ACCESS_KEY SECRET_KEY COMMAND ...

  make BUCKET        makes a bucket
  user               makes a user who may do everything, prints "ACCESS_KEY SECRET_KEY", and has moto
                     check each request from then on
  objects BUCKET     prints "KEY SIZE SHA256" for each object
  put BUCKET KEY     makes an object of what it reads
"""

import hashlib
import json
import sys
import urllib.request

import boto3

endpoint, access_key, secret_key, command, *rest = sys.argv[1:]
session = boto3.Session(access_key, secret_key, region_name="us-east-1")


def client(service):
    return session.client(service, endpoint_url=endpoint)


if command == "make":
    (bucket,) = rest
    client("s3").create_bucket(Bucket=bucket)
    # moto names the version "null" where there are none, and then has no such version.
    client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
elif command == "user":
    iam = client("iam")
    iam.create_user(UserName="test")
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_user_policy(UserName="test", PolicyName="everything", PolicyDocument=json.dumps(everything))
    key = iam.create_access_key(UserName="test")["AccessKey"]
    print(key["AccessKeyId"], key["SecretAccessKey"])
    # As anything but a form: moto would take a form's body away.
    checked = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(endpoint + "/moto-api/reset-auth", b"0", checked)).read()
elif command == "objects":
    (bucket,) = rest
    s3 = client("s3")
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for found in page.get("Contents", []):
            content = s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
            print(found["Key"], len(content), hashlib.sha256(content).hexdigest())
elif command == "put":
    bucket, key = rest
    client("s3").put_object(Bucket=bucket, Key=key, Body=sys.stdin.buffer.read())
else:
    sys.exit(__doc__)
