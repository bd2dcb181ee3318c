//! S3 over a folder, with rights that can be taken away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput, CompleteMultipartUploadOutput,
    CreateBucketInput, CreateBucketOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteObjectInput,
    DeleteObjectOutput, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput,
    HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output, PutObjectInput, PutObjectOutput,
    PutPublicAccessBlockInput, PutPublicAccessBlockOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;

use crate::State;
use crate::conduct::Permission;

/// How much of an object is missing when a part gets lost: less than the smallest part.
const LOST_BYTES: u64 = 1000;

pub(crate) struct Guarded {
    files: FileSystem,
    state: Arc<State>,
    folder: PathBuf,
}

impl Guarded {
    pub(crate) fn new(files: FileSystem, state: Arc<State>, folder: &Path) -> Self {
        Self { files, state, folder: folder.to_owned() }
    }

    fn demand(&self, permission: Permission) -> S3Result<()> {
        if self.state.conduct().denied.contains(&permission) { Err(s3_error!(AccessDenied)) } else { Ok(()) }
    }

    /// Whoever may not list is not told that an object is missing.
    fn demand_knowledge(&self, bucket: &str, key: &str) -> S3Result<()> {
        self.demand(Permission::Get)?;
        if self.folder.join(bucket).join(key).exists() { Ok(()) } else { self.demand(Permission::List) }
    }
}

#[async_trait::async_trait]
impl S3 for Guarded {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        self.demand(Permission::Put)?;
        self.files.put_object(request).await
    }

    async fn get_object(&self, mut request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        self.demand_knowledge(&request.input.bucket, &request.input.key)?;
        if self.state.conduct().ignores_ranges {
            request.input.range = None;
        }
        self.files.get_object(request).await
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        self.demand_knowledge(&request.input.bucket, &request.input.key)?;
        self.files.head_object(request).await
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        self.demand(Permission::List)?;
        self.files.head_bucket(request).await
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.demand(Permission::List)?;
        self.files.list_objects_v2(request).await
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.demand(Permission::Delete)?;
        self.files.delete_object(request).await
    }

    async fn create_bucket(&self, request: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
        self.files.create_bucket(request).await
    }

    /// Only all four together keep everybody out, whatever a policy or a list of rights says.
    async fn put_public_access_block(
        &self,
        request: S3Request<PutPublicAccessBlockInput>,
    ) -> S3Result<S3Response<PutPublicAccessBlockOutput>> {
        let block = &request.input.public_access_block_configuration;
        let all = [
            block.block_public_acls,
            block.ignore_public_acls,
            block.block_public_policy,
            block.restrict_public_buckets,
        ];
        if all.iter().all(|part| *part == Some(true)) {
            self.state.conduct().is_public = false;
        }
        Ok(S3Response::new(PutPublicAccessBlockOutput::default()))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.demand(Permission::Put)?;
        self.files.create_multipart_upload(request).await
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        self.demand(Permission::Put)?;
        self.files.upload_part(request).await
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.demand(Permission::Put)?;
        let path = self.folder.join(&request.input.bucket).join(&request.input.key);
        let done = self.files.complete_multipart_upload(request).await?;
        let loses = std::mem::take(&mut self.state.conduct().loses_a_part);
        if loses {
            let shortened = std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| {
                let length = file.metadata()?.len();
                file.set_len(length.saturating_sub(LOST_BYTES))
            });
            shortened.map_err(|error| s3_error!(error, InternalError))?;
        }
        Ok(done)
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.demand(Permission::Abort)?;
        self.files.abort_multipart_upload(request).await
    }
}
